"""An MCP server with the OpenETA tool contract over real physics: LIBERO and a small tabletop.

    client --MCP--> mcp_server --> SimulatorService --> WorkerPool --socket--> worker process
                                                                               Environment
                                                                               LIBERO | tabletop

The server never imports a simulator. One process holds one environment; whatever ends the
server ends the processes. Sessions: a handle is unguessable, unique in the server and enough
on its own; a `session_id` only groups handles, is minted if none was sent, never depends on
the connection, and is checked when given.
"""

"""Simulators behind MCP: the embedded one and any OpenETA server."""

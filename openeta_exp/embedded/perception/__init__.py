"""An MCP server with the SAM3 and AnyGrasp contracts, for frames of the embedded simulator only.

    client --MCP--> mcp_server --> PerceptionService --> naming, masks    what the frame shows
                                        |            --> grasping, hand   from the masked depth
                                        v
                                   FrameSource, keyed by the SHA-256 of the image bytes

Masks are the simulator's own segmentation of exactly the frame that was sent; an image it did not
render is refused with `image_not_rendered_here`. Grasps see no object pose: only the depth image,
the mask and where the camera stood. Every answer says `backend: embedded`.
"""

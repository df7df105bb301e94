"""What the engine asks of the world. The docstring of a protocol is its contract."""

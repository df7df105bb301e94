"""What runs in a worker process, next to the adapter: Python 3.10 or newer and numpy, no more."""

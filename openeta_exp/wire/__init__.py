"""JSON of every outside format, parsed once and here only."""

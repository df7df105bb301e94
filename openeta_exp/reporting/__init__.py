"""What a person reads: the console, tables and reports."""

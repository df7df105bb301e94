"""Pure records and rules. Nothing here reads a clock, a disk, a socket or a setting."""

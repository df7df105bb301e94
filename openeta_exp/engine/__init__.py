"""Use cases: they take ports and records and return records."""

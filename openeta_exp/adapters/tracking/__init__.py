"""Projections of the journal. Nothing here can slow, change or fail a run."""

"""Authors and reviewers: models, files, people."""

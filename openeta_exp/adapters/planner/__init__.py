"""Planners: the model behind a provider."""

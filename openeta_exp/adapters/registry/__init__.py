"""Registries of promoted artifacts."""

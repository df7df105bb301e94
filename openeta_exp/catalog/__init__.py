"""Scenes, tasks and scenarios that expand into manifests."""

"""Perception services behind the port."""

"""Where an agent's Python runs."""

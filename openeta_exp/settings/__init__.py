"""The shape of conf/, as frozen pydantic models."""

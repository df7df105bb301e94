"""What passes between adapter and policy: plain dictionaries with conventional keys."""

from __future__ import annotations

from typing import Any

Observation = dict[str, Any]
"""`images`: camera name to `[H, W, C]` uint8; `task_description`; `states` or `state`."""

Action = dict[str, Any]
"""`actions`: `[dim]`, or `[chunk, dim]`."""

Task = dict[str, Any]
"""`name`, which an instruction selects; often `suite`."""

EpisodeResult = dict[str, Any]
"""`success`, and whatever else is worth keeping."""

"""What the command line is asked to do (`command=`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.record import Record


class RunSettings(Record):
    """Run every episode that has no outcome yet, and report."""

    kind: Literal["run"] = "run"


class IterateSettings(Record):
    """Generation after generation: train, author, compare, promote."""

    kind: Literal["iterate"] = "iterate"


class ValidateSettings(Record):
    """Check settings and manifest; no network, no simulator, no model."""

    kind: Literal["validate"] = "validate"


class CapacitySettings(Record):
    """Create, reset and close every environment concurrently; no control action, no model."""

    kind: Literal["capacity"] = "capacity"


class PreflightSettings(Record):
    """Find everything that can fail before money is spent."""

    kind: Literal["preflight"] = "preflight"
    require_perception: bool = False
    """Whether missing segmentation or grasp services are an error."""
    skip_mcp_check: bool = False
    """Whether to leave simulator and perception servers alone."""
    mcp_timeout_s: float = Field(default=10.0, gt=0)
    """How long each server may take to answer."""


class InspectSettings(Record):
    """Show what an experiment has recorded so far."""

    kind: Literal["inspect"] = "inspect"
    format: Literal["table", "json"] = "table"


class TrackSettings(Record):
    """Project an experiment's journal to the tracking server again."""

    kind: Literal["track"] = "track"


CommandSettings = Annotated[
    RunSettings
    | IterateSettings
    | ValidateSettings
    | CapacitySettings
    | PreflightSettings
    | InspectSettings
    | TrackSettings,
    Field(discriminator="kind"),
]

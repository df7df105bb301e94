"""What the command line is asked to do (`command=`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.identity import PathComponent
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
    subagents: bool = False
    """Whether reviewers, authors and guidance must pass `command=subagent_eval` too."""


class InspectSettings(Record):
    """Show what an experiment has recorded so far."""

    kind: Literal["inspect"] = "inspect"
    format: Literal["table", "json"] = "table"
    batch: str | None = Field(default=None, min_length=1)
    """Batch to show episode by episode; null shows generations and a line per batch."""


class PendingSettings(Record):
    """List what waits for a person, over every experiment below `output_root`."""

    kind: Literal["pending"] = "pending"
    format: Literal["table", "json"] = "table"


class ApproveSettings(Record):
    """Let a waiting call be carried out."""

    kind: Literal["approve"] = "approve"
    interaction_id: PathComponent
    reason: str = ""


class DenySettings(Record):
    """Refuse a waiting call; the planner is told the reason."""

    kind: Literal["deny"] = "deny"
    interaction_id: PathComponent
    reason: str = ""


class ResumeSettings(Record):
    """Answer a question and run its episode again."""

    kind: Literal["resume"] = "resume"
    session_id: PathComponent
    interaction_id: PathComponent | None = None
    """Of the question that is answered. Null goes on with an answer that was given before."""
    answer: str | None = None


class SubagentEvalSettings(Record):
    """Put generated cases before every reviewer, author and guidance agent."""

    kind: Literal["subagent_eval"] = "subagent_eval"
    roles: tuple[
        Literal["action_reviewer", "guidance_agent", "skill_author", "skill_reviewer"], ...
    ] = ("action_reviewer", "guidance_agent", "skill_author", "skill_reviewer")
    cases: tuple[str, ...] | None = None
    """Case ids or names of families; null takes every case."""
    repeats: int = Field(default=1, ge=1, le=100)
    strict: bool = False
    """Whether any failed case, and any danger, ends the command with exit code 1."""
    list_cases: bool = False
    """Whether to list the cases instead."""
    format: Literal["table", "json"] = "table"
    max_danger_rate: float = Field(default=0.05, gt=0, lt=1)
    """Strict also demands that this bounds the rate of dangerous answers, at 95 %."""


class PowerSettings(Record):
    """Plan a comparison: how many pairs a gain costs, and what the chosen gate does. Runs nothing.

    What is believed of the baseline is its success rate and how much of the variance lies between
    episodes (`icc`: 1 if a rerun always agrees, 0 if every run is a fresh draw).
    """

    kind: Literal["power"] = "power"
    success_rate: float = Field(default=0.7, gt=0, lt=1)
    icc: float = Field(default=0.5, ge=0, le=1)
    effect: float = Field(default=0.15, ge=0.03, lt=1)
    """Gain that should be found, as a rate. Less than three points take thousands of pairs."""
    alpha: float | None = Field(default=None, gt=0, lt=0.5)
    """One-sided type I error; null takes the gate's, or 0.05 for a gate that has none."""
    power: float = Field(default=0.8, gt=0.5, lt=1)
    """Wanted probability of finding the gain."""
    pairs: int | None = Field(default=None, ge=1)
    """Held-out pairs there are for a comparison; null takes this comparison's share of
    `held_out`, or as many as the gate can use if there is no such manifest."""
    tokens: float | None = Field(default=None, gt=0)
    """Of one episode, as `seconds` and `usd`."""
    seconds: float | None = Field(default=None, gt=0)
    usd: float | None = Field(default=None, gt=0)
    format: Literal["table", "json"] = "table"


class CheckSettings(Record):
    """Find out whether a comparison of the policies would mean anything, before it is paid for."""

    kind: Literal["check"] = "check"
    format: Literal["table", "json"] = "table"


class CompareSettings(Record):
    """Run every policy on the same episodes and judge each against the first.

    Gate, `stop_early` and `equivalence_margin` stay as they were when the experiment's first pair
    ran. Policies may be added, and scenarios and repeats until there is a verdict; after it only
    with a gate that may look again, such as `gate=anytime`.
    """

    kind: Literal["compare"] = "compare"
    gate_required: bool = False
    """Whether it is a failure if no policy is shown to be better than, or as good as, the first.
    One that got worse always is."""
    stop_early: bool = False
    """Whether to leave out episodes that can no longer change the verdict; the breakdown by
    scenario then has gaps. Otherwise the gate is sized to all episodes there are."""
    equivalence_margin: float | None = Field(default=0.10, gt=0, lt=1)
    """Largest difference of success rates that would not matter; null tests no equivalence."""
    format: Literal["table", "json"] = "table"


class TrackSettings(Record):
    """Project an experiment's journal to the tracking server again."""

    kind: Literal["track"] = "track"


class RollbackSettings(Record):
    """Withdraw a published grasp strategy; what was validated before it is validated again."""

    kind: Literal["rollback"] = "rollback"
    strategy: str = Field(min_length=1)
    """Its `strategy_id`."""
    reason: str = Field(min_length=1)
    """Why, for whoever reads the registry's history."""


CommandSettings = Annotated[
    RunSettings
    | IterateSettings
    | ValidateSettings
    | CapacitySettings
    | PreflightSettings
    | InspectSettings
    | PendingSettings
    | ApproveSettings
    | DenySettings
    | ResumeSettings
    | SubagentEvalSettings
    | PowerSettings
    | CheckSettings
    | CompareSettings
    | TrackSettings
    | RollbackSettings,
    Field(discriminator="kind"),
]

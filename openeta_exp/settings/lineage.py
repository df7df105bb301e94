"""How generations are authored, compared and promoted (`author=`, `gate=`, `lineage`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from openeta_exp.domain.gate import Tier
from openeta_exp.domain.record import Record


class ScriptedAuthorSettings(Record):
    """The deterministic author this package serves itself; offline."""

    kind: Literal["scripted"] = "scripted"


class ModelAuthorSettings(Record):
    """The configured provider's model writes and, in a clean context of its own, reviews."""

    kind: Literal["model"] = "model"


class FileAuthorSettings(Record):
    """A person writes: the next untried file of a folder is the candidate."""

    kind: Literal["file"] = "file"
    folder: Path
    """Holds `*.json` grasp strategies and `*.md` skills, relative to the caller's directory."""


class GepaAuthorSettings(Record):
    """GEPA revises the strategy again and again, and tries its revisions on train episodes.

    It needs the extra `gepa`. The configured provider's model writes the revisions; the best one is
    judged like every other author's. The limits are of one proposal, so of a generation.
    """

    kind: Literal["gepa"] = "gepa"
    max_episodes: int = Field(default=40, ge=1)
    """Most train episodes that are run for it, broken ones included. Those of the generation's
    train batch come free."""
    max_usd: float | None = Field(default=None, gt=0)
    """Price of these episodes and of the author's own model at which nothing more is started.
    Without prices (`money.input_usd_per_million`, `money.output_usd_per_million`) only
    `max_episodes` holds."""
    episodes_per_candidate: int = Field(default=10, ge=1)
    """Train episodes that a revision worth keeping is measured on, at most; tasks in turn."""
    minibatch: int = Field(default=3, ge=1)
    """How many of these a revision is tried on first, and its author is shown."""
    seed: int = 0
    """Of GEPA's random draws."""


AuthorSettings = Annotated[
    ScriptedAuthorSettings | ModelAuthorSettings | FileAuthorSettings | GepaAuthorSettings,
    Field(discriminator="kind"),
]


class LineageSettings(Record):
    """How long a lineage is and what it may claim."""

    generations: int = Field(default=3, ge=1, le=100)
    tier: Tier = Tier.PUBLISH
    """`publish` is fit to publish: the ledger divides `fdr` among all planned comparisons, and
    lowers the gate's alpha to a comparison's part. `local` is good enough to try on: the gate keeps
    its alpha, e.g. the 0.20 of `gate=local`, and nothing is published."""
    fdr: float = Field(default=0.20, gt=0, lt=1)
    """Wanted share of false ones among promotions, over all generations of the tier `publish`."""
    flakiness_pairs: int = Field(default=0, ge=0)
    """Pairs of the first baseline with itself (A/A) before anything else, 40 are a good number;
    they size `gate.n_max=auto` and raise an alarm if the two arms are not exchangeable."""
    confirmation_pairs: int = Field(default=20, ge=0)
    """Fresh pairs of the last against the first tree at the end; 0 leaves it out."""
    canary_episodes: int = Field(default=2, ge=1)
    """Fewest episodes of a canary that has no manifest of its own."""


class MoneySettings(Record):
    """What tokens cost and how much may be spent. Null means: not known, or no limit.

    A model call of any role that could exceed a cap is not made, and ends the command; the same
    command with a higher cap goes on. What counts is everything that an experiment's calls have
    cost since it began, retries and interrupted episodes included, and for a call that was never
    answered the most it can have cost. `run`, `iterate`, `resume` and the planner in `compare`
    count on from each other; `run`, `resume` and `compare` work in generation 0 or in the one of
    the paused episode. For `preflight` and `subagent_eval` a cap is for that command alone.
    """

    input_usd_per_million: float | None = Field(default=None, ge=0)
    """Price of a million tokens that models are sent; every endpoint and role costs the same."""
    output_usd_per_million: float | None = Field(default=None, ge=0)
    """Price of a million tokens that models answer with."""
    experiment_usd: float | None = Field(default=None, gt=0)
    generation_usd: float | None = Field(default=None, gt=0)
    experiment_tokens: int | None = Field(default=None, ge=1)
    """Most tokens that may be sent and answered with together, as `generation_tokens`."""
    generation_tokens: int | None = Field(default=None, ge=1)

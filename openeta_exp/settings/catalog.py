"""What policies are compared on (`catalog=`), and the policies themselves (`policy@NAME=`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from openeta_exp.domain.identity import PathComponent
from openeta_exp.domain.record import Record

_WEBSOCKET = ("ws://", "wss://")


def _check_import_string(text: str) -> str:
    module, _, attribute = text.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    if not all(part.isidentifier() for part in parts):
        raise ValueError("is no import string; write package.module:Name")
    return text


def _check_websocket(url: str) -> str:
    if not url.startswith(_WEBSOCKET):
        raise ValueError("is no WebSocket address; write ws://HOST:PORT")
    return url


ImportString = Annotated[str, AfterValidator(_check_import_string)]


class _Catalog(Record):
    """How episodes of policies are run, wherever they come from."""

    timeout_s: float = Field(default=3600.0, gt=0)
    """Wall clock of one episode; its worker is then killed."""
    attempts: int = Field(default=2, ge=1, le=10)
    """Runs of an episode that breaks, before it is given up. The same command tries it again."""
    give_up_after: int = Field(default=10, ge=1)
    """Episodes of one policy that break in a row, before the rest is left for another time."""
    workers: int | None = Field(default=None, ge=1, le=64)
    """Simulator processes; null is one per core, and never more than `concurrency.episodes`."""
    interpreter: str | None = Field(default=None, min_length=1)
    """Python the workers run, 3.10 or later with numpy; null is this one."""
    render: Literal["gpu", "cpu"] | None = None
    """For adapters that ask; null leaves the choice to them."""
    video: bool = False
    """Whether adapters that record videos may keep them."""
    allow_invalid: bool = False
    """Compare although the checks say it means nothing. Stamped into every result."""
    max_missing_share: float = Field(default=0.0, ge=0, lt=1)
    """Pairs without a verdict, as a share of all, up to which a result is not called partial. A
    partial one says nothing in favour of a policy. Every run counts, repeats apart."""


class FileCatalogSettings(_Catalog):
    """A directory with scenes.yaml, tasks.yaml and scenarios.yaml."""

    kind: Literal["files"] = "files"
    path: Path
    """Relative to where the command is started."""
    repeats: int = Field(default=1, ge=1, le=1000)
    """Episodes per scenario and task. More of them show more surely how a scenario ends;
    independent evidence is only another scenario."""
    tier: Literal["smoke", "regression", "full"] = "full"
    """A tenth, a half, or all of every scenario set; each contains the smaller ones."""
    scenario_sets: tuple[str, ...] = ()
    """Ids of the sets to run; empty runs all."""


class EmbeddedCatalogSettings(_Catalog):
    """The episodes of `manifest`, on the simulators that come with this package."""

    kind: Literal["embedded"] = "embedded"
    max_steps: int = Field(default=300, ge=1)
    """Control steps of one episode of a policy, 20 a second."""
    cameras: tuple[Annotated[str, Field(min_length=1)], ...] = ("agentview",)
    image_size: int = Field(default=128, ge=16, le=2048)
    """Pixels, square."""
    privileged: bool = False
    """Whether policies are told where objects are."""


CatalogSettings = Annotated[
    FileCatalogSettings | EmbeddedCatalogSettings, Field(discriminator="kind")
]


class ChunkSettings(Record):
    """For policies that answer with several actions at once."""

    size: int = Field(ge=1)
    """Actions of an answer that are used at most."""
    ensemble: Literal["newest", "average", "ema"] = "newest"
    """How two answers about the same step are blended."""
    ema_alpha: float = Field(default=0.5, gt=0, le=1)
    """Weight of the newer answer with `ema`."""
    replan_every: int | None = Field(default=None, ge=1)
    """Steps between two answers; null waits until no action is left."""


class _Checkpoint(Record):
    """What tells one state of a policy from another."""

    weights: tuple[Path, ...] = ()
    """Files or directories of the checkpoint; their content is the policy's identity. So is that
    of files and directories that `params` name; only what a policy finds by itself is missed."""
    revision: str | None = Field(default=None, min_length=1)
    """What you call this state, where the weights are out of reach."""
    scripted: bool = False
    """Whether no trained model is behind it. Stamped into every result."""


class CallablePolicySettings(_Checkpoint):
    """A Python function, or a class with `act`, in the worker's process."""

    kind: Literal["callable"] = "callable"
    target: ImportString
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """Keyword arguments of the class."""
    chunks: ChunkSettings | None = None
    requires: tuple[str, ...] | None = None
    """Observation keys it needs, dotted, such as `images.front`; null leaves that to the policy."""


class VlaEvalPolicySettings(_Checkpoint):
    """A running vla-eval model server (protocol 1 over a WebSocket)."""

    kind: Literal["vla_eval"] = "vla_eval"
    url: Annotated[str, AfterValidator(_check_websocket)]
    images: Literal["raw", "png"] = "raw"
    connect_timeout_s: float = Field(default=30.0, gt=0)
    act_timeout_s: float = Field(default=30.0, gt=0)
    chunks: ChunkSettings | None = None
    """Only for servers that reply with whole chunks."""
    requires: tuple[str, ...] | None = None
    """Observation keys it needs, dotted, such as `images.front`; null leaves that to the policy."""


class ModelServerPolicySettings(_Checkpoint):
    """A `PredictModelServer` class, hosted in the worker's process without a socket."""

    kind: Literal["model_server"] = "model_server"
    target: ImportString
    params: dict[str, JsonValue] = Field(default_factory=dict)


class PlannerPolicySettings(Record):
    """The configured planner with its tools, on the same episodes; for `catalog=embedded`."""

    kind: Literal["planner"] = "planner"


PolicySettings = Annotated[
    CallablePolicySettings
    | VlaEvalPolicySettings
    | ModelServerPolicySettings
    | PlannerPolicySettings,
    Field(discriminator="kind"),
]
Policies = dict[PathComponent, PolicySettings]
"""By name, in the order of the command line: the first is what the others are compared with."""

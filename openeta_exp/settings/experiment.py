"""Everything one command needs to know, checked once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from openeta_exp.domain.gate import PUBLISH_GATE, Gate
from openeta_exp.domain.identity import JsonObject, PathComponent
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.record import Record
from openeta_exp.settings.agent import AgentSettings, NoSandboxSettings, SandboxSettings
from openeta_exp.settings.catalog import CatalogSettings, Policies
from openeta_exp.settings.command import CommandSettings, RunSettings
from openeta_exp.settings.lineage import (
    AuthorSettings,
    LineageSettings,
    MoneySettings,
    ScriptedAuthorSettings,
)
from openeta_exp.settings.manifest import ManifestSettings
from openeta_exp.settings.model import (
    EmbeddedProviderSettings,
    ModelPlannerSettings,
    OpenAiProviderSettings,
    PlannerSettings,
    ProviderSettings,
)
from openeta_exp.settings.rules import misfits
from openeta_exp.settings.tracking import MlflowTrackingSettings, TrackingSettings
from openeta_exp.settings.world import (
    EmbeddedPerceptionSettings,
    EmbeddedSimulatorSettings,
    PerceptionSettings,
    SimulatorSettings,
)

SHIPPED_TREES = ("standard", "naive")
REGISTRY_TREE = "registry"


class ApprovementSettings(Record):
    """Who must agree to a world-changing action; host-chosen, out of the agent's reach."""

    profile: Literal["human_gated", "standard", "reviewed_autonomy"] = "standard"
    timeout_s: float = Field(default=300.0, gt=0)
    """How long a person may take to decide; after that the episode needs a human."""


class ConcurrencySettings(Record):
    """The limits that have a name."""

    episodes: int = Field(default=10, ge=1, le=32)
    """Episodes in flight; never more than the manifest has."""
    provider: int = Field(default=2, ge=1)
    """Model calls in flight, over every role."""
    provider_queue_timeout_s: float = Field(default=180.0, gt=0)
    """How long a model call may wait for its turn."""
    lineages: int = Field(default=1, ge=1, le=32)
    """Lineages of a multirun side by side. Each is a process with a simulator and with limits of
    its own, so that the machine and the provider see this many times the limits above."""


class RecordingSettings(Record):
    """What a session leaves behind besides its trace."""

    frames: Literal["none", "all"] = "none"
    """Whether the images each decision rested on are kept, a few megabytes an episode."""


def _check_tree(tree: str) -> str:
    names = (*SHIPPED_TREES, REGISTRY_TREE)
    if tree not in names and not Path(tree).is_dir():
        raise ValueError(f"is no directory; use one, or one of {', '.join(names)}")
    return tree


class BaselineSettings(Record):
    """What every session starts from."""

    tree: Annotated[str, AfterValidator(_check_tree)] = "standard"
    """A tree that comes with the package, or a directory with `skills/` and
    `grasp_strategies/`, relative to where the command is started. `registry` is the validated
    strategies of the shared registry with the standard skills, as they are when the experiment
    begins."""


class ExperimentSettings(Record):
    """The whole of conf/ after composition."""

    experiment_id: PathComponent = "experiment"
    """Names the experiment's directory; the same name continues the same experiment."""
    command: CommandSettings = RunSettings()
    output_root: Path = Path("outputs")
    """Relative to where the command is started."""
    manifest: ManifestSettings
    canary: ManifestSettings | None = None
    """The cheap first comparison of `command=iterate`. Null takes up to ten tasks of `manifest`,
    each at a seed that neither it nor `held_out` uses."""
    held_out: ManifestSettings | None = None
    """Seen only by the gate of `command=iterate`; each comparison gets a part of its own."""
    generation: int | None = Field(default=None, ge=0)
    """Run this generation alone, from what the one before has promoted; null runs all of them."""
    episodes: tuple[str, ...] | None = None
    """Ids to run, in this order; null runs the whole manifest."""
    approvement: ApprovementSettings = ApprovementSettings()
    on_need_human: Literal["fail", "pause"] = "fail"
    """What an unanswered question to a person means for its episode."""
    concurrency: ConcurrencySettings = ConcurrencySettings()
    agent: AgentSettings = AgentSettings()
    sandbox: SandboxSettings = NoSandboxSettings()
    simulator: SimulatorSettings = EmbeddedSimulatorSettings()
    perception: PerceptionSettings = EmbeddedPerceptionSettings()
    provider: ProviderSettings = EmbeddedProviderSettings()
    planner: PlannerSettings = ModelPlannerSettings()
    baseline: BaselineSettings = BaselineSettings()
    author: AuthorSettings = ScriptedAuthorSettings()
    gate: Gate = PUBLISH_GATE
    """The rule by which a candidate may become the baseline."""
    lineage: LineageSettings = LineageSettings()
    money: MoneySettings = MoneySettings()
    catalog: CatalogSettings | None = None
    """Which episodes `command=check` and `command=compare` are about."""
    policies: Policies = Field(default_factory=dict)
    """What they compare, by name; `policy@NAME=OPTION` on the command line adds one."""
    tracking: TrackingSettings = MlflowTrackingSettings()
    recording: RecordingSettings = RecordingSettings()
    publish_grasp_strategies: bool = True
    """Whether `command=iterate` shares promoted grasp strategies with other experiments; with
    `lineage.tier=local` it never does."""
    registry_root: Path | None = None
    """The shared registry's folder; null is `registry` below the output root."""
    fresh: bool = False
    """Whether `run` and `compare` run finished episodes again; `iterate` refuses it. A comparison
    that has its verdict is exploratory afterwards."""

    @model_validator(mode="after")
    def _sections_fit(self) -> Self:
        broken = [f"{field}: {reason}" for field, reason in misfits(dict(self))]
        if broken:
            raise ValueError("; ".join(broken))
        return self

    def read_manifest(self) -> Manifest:
        """The selected episodes.

        Raises:
            ManifestError: With every mistake of the manifest, or of the selection.
        """
        manifest = self.manifest.read()
        return manifest if self.episodes is None else manifest.select(self.episodes)

    def public_json(self) -> JsonObject:
        """The resolved settings. Holds no secret: no field of any section can."""
        return self.model_dump(mode="json")

    def behaviour_json(self) -> JsonObject:
        """What can influence how an episode ends, besides the episode and the baseline tree.

        Names the arm, so where results go, how many run at once and how long a server may take
        to answer are left out: a run may be continued with other values of these.
        """
        return {
            "simulator": _simulator_behaviour(self.simulator),
            "perception": _perception_behaviour(self.perception),
            "provider": _provider_behaviour(self.provider),
            "planner": self.planner.model_dump(mode="json"),
            "approvement": self.approvement.model_dump(mode="json"),
            "on_need_human": self.on_need_human,
            "agent": self.agent.model_dump(mode="json"),
            "sandbox": self.sandbox.kind,
        }


def _simulator_behaviour(settings: SimulatorSettings) -> JsonObject:
    return settings.model_dump(
        mode="json", exclude={"max_processes", "call_timeout_s", "close_timeout_s", "transport"}
    )


def _perception_behaviour(settings: PerceptionSettings) -> JsonObject:
    return settings.model_dump(mode="json", exclude={"timeout_s", "transport"})


def _provider_behaviour(settings: ProviderSettings) -> JsonObject:
    match settings:
        case EmbeddedProviderSettings():
            return settings.model_dump(
                mode="json", include={"kind", "model", "faults", "role_models"}
            )
        case OpenAiProviderSettings(fallback=fallback):
            endpoints = {"base_url", "model"}
            return {
                "kind": settings.kind,
                **settings.model_dump(mode="json", include={*endpoints, "role_models"}),
                "fallback": None
                if fallback is None
                else fallback.model_dump(mode="json", include=endpoints),
            }

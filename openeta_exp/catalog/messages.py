"""What passes between this process and a worker, as records on this side."""

from __future__ import annotations

from pydantic import Field, JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.record import Record
from openeta_exp.domain.stop import FailureClass


class WorkerFailure(Record):
    """Something broke in a worker, and who is to blame."""

    failure_class: FailureClass
    code: str
    error_type: str
    message: str


class TaskAccess(Record):
    """How an adapter used the task it was given, or a policy its observation."""

    read: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    """Asked for and not there."""
    defaulted: dict[str, str] = Field(default_factory=dict)
    """Not there and replaced by a default."""
    optional: tuple[str, ...] = ()
    """There, but read so that its absence would have passed unnoticed."""
    written: tuple[str, ...] = ()
    bulk: bool = False
    """Read as a whole: single keys cannot be told apart."""


class Latency(Record):
    """Time a policy took to answer, seconds."""

    count: int
    mean_s: float
    p50_s: float
    p95_s: float
    max_s: float


class StepsFile(Record):
    """Step records on disk: JSON lines, next to the journal."""

    file: str
    count: int
    sha256: str


class BenchmarkEvidence(Record):
    """Everything one episode of a benchmark left behind besides its verdict.

    Stored in `EpisodeOutcome.environment["benchmark"]`, so that the journal keeps it.
    """

    scenario: JsonObject = Field(default_factory=dict)
    """Values of the scenario's parameters, perturbations included."""
    steps: int = 0
    finished: bool = False
    """The adapter ended the episode, not the step limit."""
    result: JsonObject = Field(default_factory=dict)
    """Every field of the adapter's result."""
    metrics: JsonObject = Field(default_factory=dict)
    phases: JsonObject = Field(default_factory=dict)
    """Step at which each phase was reached; null if it was not."""
    unmet: tuple[str, ...] = ()
    """What kept a success from being one: the predicate, thresholds."""
    observation_keys: tuple[str, ...] = ()
    task_access: TaskAccess = TaskAccess()
    receipts: tuple[JsonObject, ...] = ()
    """One per perturbation: whether it fired, and what it changed."""
    action_dim: int | None = None
    actions_constant: bool = False
    latency: Latency | None = None
    step_records: tuple[JsonObject, ...] = ()
    """What the adapter recorded, if no folder for it was named."""
    steps_file: StepsFile | None = None
    video_file: str | None = None

    @property
    def perturbed_as_planned(self) -> bool:
        """Every perturbation fired and changed something; trivially so if there is none."""
        return all(receipt.get("fired") and receipt.get("changed") for receipt in self.receipts)


class EpisodeReport(Record):
    """A worker's whole answer about one episode."""

    success: bool
    reward: float
    initial_digest: str | None
    initial_images: dict[str, str]
    failure: WorkerFailure | None
    evidence: BenchmarkEvidence

    @classmethod
    def from_worker(cls, reply: JsonObject, *, scenario: JsonObject) -> EpisodeReport:
        """Raises: pydantic.ValidationError."""
        own = ("success", "reward", "initial_digest", "initial_images", "failure")
        evidence: dict[str, JsonValue] = {
            name: value for name, value in reply.items() if name not in own
        }
        return cls.model_validate(
            {
                **{name: reply[name] for name in own},
                "evidence": {**evidence, "scenario": scenario},
            }
        )


class AdapterDescription(Record):
    """What an adapter said of itself before any episode."""

    api: str
    """Version of the installed vla-eval, or `stand-in`."""
    form: str
    tasks: tuple[JsonObject, ...]
    selected: JsonObject
    """The entry of `get_tasks()` the instruction selects."""
    metadata: JsonObject
    action_spec: JsonObject | None
    observation_spec: JsonObject | None
    methods: tuple[str, ...]
    python: str
    adapter_class: str = Field(alias="class")


class PolicyDescription(Record):
    """What a policy said of itself."""

    identity: JsonObject
    requires: tuple[str, ...] | None = None
    """Observation keys it needs, dotted; None if it does not say."""
    action_spec: JsonObject | None = None
    observation_spec: JsonObject | None = None

"""What the host knows about one running episode. No tool can address any of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from openeta_exp.domain.episode import GraspAttempt
from openeta_exp.domain.evidence import EnvironmentReceipt
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.memory import SessionMemory
from openeta_exp.domain.observation import (
    CameraArtifact,
    CameraFrame,
    Observation,
    ordered_cameras,
)
from openeta_exp.domain.record import canonical_json
from openeta_exp.engine.candidate_queue import CandidateQueue, CompiledGrasp, QueueState
from openeta_exp.ports.perception import Detection, Vector3


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDetection:
    """A detection together with the frame it was found in."""

    detection_id: str
    frame: CameraFrame
    detection: Detection
    prompt: str
    scene_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDetection:
    """Where a detection was found to be, world frame, metres."""

    detection_id: str
    label: str
    min_xyz_m: Vector3
    max_xyz_m: Vector3
    scene_epoch: int


@dataclass(slots=True, kw_only=True)
class EpisodeHost:
    """The mutable state of one episode, owned by its loop and changed by nobody else."""

    observation: Observation
    initial_observation: Observation
    turn: int = 0
    observed_at_turn: int = 0
    scene_epoch: int = 0
    """Counts world-mutating calls; perception results carry the epoch they were made in."""
    detections: dict[str, KnownDetection] = field(default_factory=dict)
    selected: str | None = None
    pending_selection: tuple[str, ...] = ()
    measured: dict[str, MeasuredDetection] = field(default_factory=dict)
    gripper_command: int | None = None
    """0 after the last close, 1 after the last opening."""
    grasp_target: str = ""
    queue: CandidateQueue | None = None
    last_compiled: CompiledGrasp | None = None
    """Of whichever candidate was compiled last, also if another one is active now."""
    receipts: list[EnvironmentReceipt] = field(default_factory=list)
    grasps: list[GraspAttempt] = field(default_factory=list)
    feedback: list[str] = field(default_factory=list)
    memory: SessionMemory = field(default_factory=SessionMemory)

    @property
    def reward(self) -> float:
        return max((receipt.reward for receipt in self.receipts), default=0.0)

    def see(self, observation: Observation) -> None:
        """Make an observation the current one."""
        self.observation = observation
        self.observed_at_turn = self.turn

    def artifacts(self) -> tuple[CameraArtifact, ...]:
        """Images of the current observation only, RGB before depth within a camera."""
        place = f"artifacts/turn_{self.observed_at_turn:03d}"
        listed: list[CameraArtifact] = []
        for frame in ordered_cameras(self.observation):
            stem = f"{place}/{frame.frame_id}"
            listed.append(
                CameraArtifact(frame_id=frame.frame_id, kind="rgb", path=f"{stem}.rgb.png")
            )
            if frame.depth_png is not None:
                listed.append(
                    CameraArtifact(frame_id=frame.frame_id, kind="depth", path=f"{stem}.depth.png")
                )
        return tuple(listed)

    def frame_named(self, name: str | None) -> CameraFrame | None:
        """The RGB frame a planner means: an artifact path or frame id of the current
        observation, or the primary camera if it names none. Never looks elsewhere."""
        frames = ordered_cameras(self.observation)
        if name is None:
            return frames[0] if frames else None
        paths = {
            artifact.path: artifact.frame_id
            for artifact in self.artifacts()
            if artifact.kind == "rgb"
        }
        wanted = paths.get(name, name)
        return next((frame for frame in frames if frame.frame_id == wanted), None)

    def take_feedback(self) -> tuple[str, ...]:
        """Host messages since the last turn; each is delivered once."""
        taken = tuple(self.feedback)
        self.feedback.clear()
        return taken

    def to_json(self) -> JsonObject:
        """The part of the host's knowledge a planner is shown."""
        queue = self.queue
        return {
            "active_grasp_candidate": None if queue is None else queue.to_json(),
            "candidates_exhausted": queue is not None and queue.state is QueueState.EXHAUSTED,
            "pending_selection": list(self.pending_selection),
            "scene_epoch": self.scene_epoch,
            "environment": {"reward": self.reward, "success": self.reward > 0},
            **_remembered(self.memory),
        }


_SHOWN_ENTRIES = 8
_SHOWN_CHARACTERS = 200
_SHOWN_SUMMARY = 2_000


def _remembered(memory: SessionMemory) -> JsonObject:
    """The part of the memory every turn is shown; nothing of it where nothing was kept."""
    shown: JsonObject = {}
    for name, answer in (
        ("latest_guidance_interaction", memory.latest_guidance_interaction),
        ("latest_human_interaction", memory.latest_human_interaction),
    ):
        if answer is not None:
            shown[name] = {
                "question": answer.question,
                "answer": answer.answer,
                "source": answer.source.value,
            }
    if memory.entries:
        shown["memory"] = {
            f"{each.namespace}/{each.key}": canonical_json(each.value).decode("utf-8")[
                :_SHOWN_CHARACTERS
            ]
            for each in memory.entries[-_SHOWN_ENTRIES:]
        }
    if memory.summary:
        shown["memory_summary"] = memory.summary[-_SHOWN_SUMMARY:]
    return shown

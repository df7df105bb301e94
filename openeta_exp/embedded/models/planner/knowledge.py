"""What the calls of the current attempt have brought to light."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openeta_exp.embedded.models.planner.replies import (
    Detection,
    GraspSeed,
    Measurement,
    Motion,
    Segmentation,
    SkillText,
    read,
)
from openeta_exp.embedded.models.planner.skill_steps import Step
from openeta_exp.embedded.models.planner.view import PastCall, PastTurn


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Looks facts up in the turns of one attempt; the latest word counts.

    Older attempts are left out: what they saw was moved, or they would not have failed.
    """

    turns: tuple[PastTurn, ...]

    def segmentation(self, name: str) -> Segmentation | None:
        """Of the object of that name, as `sam3` was last asked for it."""
        for past in self._succeeded("sam3"):
            if past.call.arguments.get("prompt") == name:
                found = read(Segmentation, past.outputs)
                return found if found is not None and found.detections else None
        return None

    def detection_id(self, name: str) -> str | None:
        """The detection to use for a name; None if it was not segmented."""
        found = self.segmentation(name)
        if found is None:
            return None
        ids = {detection.id for detection in found.detections}
        for past in self._succeeded("select_sam3_detection"):
            chosen = past.call.arguments.get("detection_id")
            if isinstance(chosen, str) and chosen in ids:
                return chosen
        return found.selected or best(found.detections).id

    def unselected(self, name: str) -> str | None:
        """The detection to select if the segmentation left the choice open."""
        found = self.segmentation(name)
        if found is None or found.selected is not None or len(found.detections) < 2:
            return None
        asked = {past.call.arguments.get("detection_id") for past in self._selections()}
        if any(detection.id in asked for detection in found.detections):
            return None
        return best(found.detections).id

    def measurement(self, name: str) -> Measurement | None:
        wanted = self.detection_id(name)
        for past in self._succeeded("measure_detection"):
            found = read(Measurement, past.outputs)
            if found is not None and found.detection_id == wanted:
                return found
        return None

    def seed(self) -> GraspSeed | None:
        for past in self._succeeded("compile_grasp_seed"):
            return read(GraspSeed, past.outputs)
        return None

    def has_candidates(self) -> bool:
        """Grasps were estimated in this attempt, so the active candidate belongs to it."""
        return next(self._succeeded("anygrasp"), None) is not None

    def grasp_z_m(self, steps: tuple[Step, ...]) -> float | None:
        """Height at which the gripper stood when the last contact motion ended."""
        for turn in reversed(self.turns):
            for at, past in zip(turn.mark.steps, turn.calls, strict=False):
                if at < len(steps) and steps[at].role == "contact" and past.success:
                    motion = read(Motion, past.outputs)
                    return motion.end.z if motion is not None else None
        return None

    def _succeeded(self, tool: str) -> Iterator[PastCall]:
        """Calls of a tool that worked, newest first."""
        return (past for past in self._calls() if past.call.name == tool and past.success)

    def _selections(self) -> Iterator[PastCall]:
        return (past for past in self._calls() if past.call.name == "select_sam3_detection")

    def _calls(self) -> Iterator[PastCall]:
        return (past for turn in reversed(self.turns) for past in reversed(turn.calls))


def best(detections: tuple[Detection, ...]) -> Detection:
    """The highest score; the first of equals."""
    return max(detections, key=lambda detection: detection.score)


def skill_text(turns: tuple[PastTurn, ...], name: str) -> str | None:
    """A whole skill as `read_skill` gave it, in any attempt."""
    for past in _readings(turns, name):
        text = read(SkillText, past.outputs) if past.success else None
        if text is not None:
            return text.content
    return None


def asked_for_skill(turns: tuple[PastTurn, ...], name: str) -> bool:
    return bool(_readings(turns, name))


def _readings(turns: tuple[PastTurn, ...], name: str) -> list[PastCall]:
    calls = [past for turn in turns for past in turn.calls if past.call.name == "read_skill"]
    return [past for past in calls if past.call.arguments.get("name") == name]

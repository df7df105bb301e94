"""One step of a skill -> one tool call, with the parameters of the grasp strategy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pydantic import JsonValue

from openeta_exp.domain.grasp_strategy import GraspStrategy
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.tool import ToolCall
from openeta_exp.embedded.models.planner.knowledge import Knowledge
from openeta_exp.embedded.models.planner.replies import Measurement, Pose, Vector
from openeta_exp.embedded.models.planner.skill_steps import Step
from openeta_exp.embedded.models.planner.task import PickAndPlace, Relation

CLOSED = 0
OPEN = 1
OPEN_STEPS = 10
PRECISE_TOLERANCE_M = 0.008
"""Where a few millimetres decide over the grasp: hover, contact and release."""
PRECISE_STEPS = 60
TRANSPORT_TOLERANCE_M = 0.02
TRANSPORT_STEPS = 80


class PassOver(Enum):
    """Why a step makes no call."""

    NOT_APPLICABLE = "the strategy does not ask for it"
    NO_INPUT = "no earlier step brought what it needs"
    UNKNOWN = "it says nothing this planner understands"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What a call may be made from.

    Attributes:
        eef_xyz_m: Where the gripper is now, world frame.
        candidate_id: Active grasp candidate.
    """

    task: PickAndPlace
    strategy: GraspStrategy
    steps: tuple[Step, ...]
    known: Knowledge
    eef_xyz_m: Vector
    candidate_id: str | None

    def call(self, step: Step) -> ToolCall | PassOver:
        match step.tool:
            case "sam3":
                return self._segment(step)
            case "measure_detection":
                return self._measure(step)
            case "anygrasp":
                return self._estimate(step)
            case "compile_grasp_seed":
                return self._compile()
            case "move_to":
                return self._move(step)
            case "gripper_control":
                return self._grip(step)
            case _:
                return PassOver.UNKNOWN

    def _name(self, step: Step) -> str | None:
        return {"target": self.task.target, "goal": self.task.goal}.get(step.role)

    def _segment(self, step: Step) -> ToolCall | PassOver:
        name = self._name(step)
        if name is None:
            return PassOver.UNKNOWN
        return ToolCall(name="sam3", arguments={"mode": "text", "prompt": name})

    def _measure(self, step: Step) -> ToolCall | PassOver:
        name = self._name(step)
        if name is None:
            return PassOver.UNKNOWN
        detection = self.known.detection_id(name)
        if detection is None:
            return PassOver.NO_INPUT
        return ToolCall(name="measure_detection", arguments={"detection_id": detection})

    def _estimate(self, step: Step) -> ToolCall | PassOver:
        name = self._name(step)
        if name is None:
            return PassOver.UNKNOWN
        detection = self.known.detection_id(name)
        if detection is None:
            return PassOver.NO_INPUT
        return ToolCall(
            name="anygrasp",
            arguments={
                "detection_id": detection,
                "collision_detection": self.strategy.candidate_filter.avoid_collisions,
            },
        )

    def _compile(self) -> ToolCall | PassOver:
        if self.candidate_id is None or not self.known.has_candidates():
            return PassOver.NO_INPUT
        motion = self.strategy.motion_policy
        grasp_height: JsonObject = {
            "reference": motion.grasp_height.reference,
            "offset_m": motion.grasp_height.offset_m,
            "floor_m": motion.grasp_height.floor_m,
        }
        return ToolCall(
            name="compile_grasp_seed",
            arguments={
                "candidate_id": self.candidate_id,
                "orientation": self.strategy.pose_policy.orientation.value,
                "grasp_height": grasp_height,
                "approach_height_m": motion.approach_height_m,
                "min_downward_alignment": self.strategy.candidate_filter.min_downward_alignment,
            },
        )

    def _grip(self, step: Step) -> ToolCall | PassOver:
        if step.role == "open":
            return open_gripper()
        if step.role == "close":
            steps = self.strategy.motion_policy.close_steps
            return ToolCall(
                name="gripper_control", arguments={"position": CLOSED, "num_steps": steps}
            )
        return PassOver.UNKNOWN

    def _move(self, step: Step) -> ToolCall | PassOver:
        seed = self.known.seed()
        x, y, _ = self.eef_xyz_m
        match step.role:
            case "hover":
                return PassOver.NO_INPUT if seed is None else _precise(seed.hover_pose)
            case "contact":
                return PassOver.NO_INPUT if seed is None else _precise(seed.contact_pose)
            case "lift" | "retreat":
                return _transport(self._upright(x, y, self._carry_z_m()))
            case "goal":
                return self._carry()
            case "release":
                return self._lower()
            case _:
                return PassOver.UNKNOWN

    def _carry(self) -> ToolCall | PassOver:
        goal = self.known.measurement(self.task.goal)
        if goal is None:
            return PassOver.NO_INPUT
        x, y = self._over(goal)
        return _transport(self._upright(x, y, self._carry_z_m()))

    def _lower(self) -> ToolCall | PassOver:
        release = self.strategy.motion_policy.release
        if release.mode == "drop":
            return PassOver.NOT_APPLICABLE
        goal, seed = self.known.measurement(self.task.goal), self.known.seed()
        if goal is None or seed is None:
            return PassOver.NO_INPUT
        grasp_z_m = self.known.grasp_z_m(self.steps)
        if grasp_z_m is None:
            grasp_z_m = seed.contact_pose.z
        # The object hangs below the gripper as far as its bottom was when it was gripped.
        hang_m = max(0.0, grasp_z_m - seed.target_bottom_z_m)
        inside = self.task.relation is Relation.INSIDE
        floor_z_m = goal.min_xyz_m[2] if inside else goal.top_centre_xyz_m[2]
        z = min(floor_z_m + release.clearance_m + hang_m, self._carry_z_m())
        x, y = self._over(goal)
        return _precise(self._upright(x, y, z))

    def _over(self, goal: Measurement) -> tuple[float, float]:
        """Where the gripper must be for the target's middle to be over the goal's."""
        seed = self.known.seed()
        dx, dy = (0.0, 0.0) if seed is None else seed.grasp_offset_xy_m
        x, y, _ = goal.centre_xyz_m
        return x + dx, y + dy

    def _carry_z_m(self) -> float:
        """Transport height above what the target stood on; above zero if that is unknown."""
        seed = self.known.seed()
        ground_m = 0.0 if seed is None else seed.target_bottom_z_m
        return ground_m + self.strategy.motion_policy.lift_height_m

    def _upright(self, x: float, y: float, z: float) -> Pose:
        """A place with the orientation of the grasp; without a grasp, the one the arm has."""
        seed = self.known.seed()
        if seed is None:
            return Pose(x=x, y=y, z=z)
        grasp = seed.contact_pose
        return Pose(x=x, y=y, z=z, roll=grasp.roll, pitch=grasp.pitch, yaw=grasp.yaw)


def open_gripper() -> ToolCall:
    return ToolCall(name="gripper_control", arguments={"position": OPEN, "num_steps": OPEN_STEPS})


def _precise(pose: Pose) -> ToolCall:
    return _move_to(pose, num_steps=PRECISE_STEPS, tolerance_m=PRECISE_TOLERANCE_M)


def _transport(pose: Pose) -> ToolCall:
    return _move_to(pose, num_steps=TRANSPORT_STEPS, tolerance_m=TRANSPORT_TOLERANCE_M)


def _move_to(pose: Pose, *, num_steps: int, tolerance_m: float) -> ToolCall:
    target: dict[str, JsonValue] = pose.model_dump(exclude_none=True)
    return ToolCall(
        name="move_to",
        arguments={"target_pose": target, "num_steps": num_steps, "tolerance": tolerance_m},
    )

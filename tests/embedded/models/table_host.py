"""A host with a tiny table world, to hold conversations with planner models without a simulator.

Physics in three rules: the fingers hold what they close on for at least five steps, a held thing
moves with them, a thing let go falls to the floor below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from openeta_exp.domain.decision import AskHuman, CallTools, Decision, Finish
from openeta_exp.domain.grasp_strategy import GraspStrategy
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.observation import Observation, RobotState
from openeta_exp.domain.skill import Skill
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult, ToolSpec
from openeta_exp.domain.turn import TurnContext
from openeta_exp.wire.agent_command import parse_command, render_command
from openeta_exp.wire.planner_context import render_past_turn, render_system, render_turn

Model = Callable[[Sequence[ModelMessage]], str]

_EFFECTS = {
    "sam3": ToolEffect.READ_ONLY,
    "select_sam3_detection": ToolEffect.BOOKKEEPING,
    "measure_detection": ToolEffect.READ_ONLY,
    "anygrasp": ToolEffect.PLANNING,
    "compile_grasp_seed": ToolEffect.PLANNING,
    "read_skill": ToolEffect.READ_ONLY,
    "observe": ToolEffect.READ_ONLY,
    "move_to": ToolEffect.WORLD_MUTATING,
    "gripper_control": ToolEffect.WORLD_MUTATING,
}
TOOLS = tuple(
    ToolSpec(
        name=name,
        description="",
        effect=effect,
        parameters={"type": "object", "required": [] if name == "observe" else ["something"]},
    )
    for name, effect in _EFFECTS.items()
)
MIN_CLOSE_STEPS = 5


@dataclass
class Thing:
    """A box standing on something.

    Attributes:
        xyz_m: Middle of its bottom.
    """

    xyz_m: tuple[float, float, float]
    height_m: float = 0.1
    holds: bool = False


@dataclass
class TableWorld:
    """What is where.

    Attributes:
        unreachable_contacts: Grasp candidates whose contact pose is never reached.
        duplicates: Names that segmentation finds twice.
    """

    things: dict[str, Thing]
    target: str
    goal: str
    unreachable_contacts: frozenset[str] = frozenset()
    duplicates: frozenset[str] = frozenset()
    failing_tools: frozenset[str] = frozenset()
    eef_xyz_m: tuple[float, float, float] = (0.0, 0.0, 0.5)
    openness: float = 1.0
    held: str | None = None
    candidates: list[str] = field(default_factory=list)
    compiled: str = ""
    detections: dict[str, str] = field(default_factory=dict)
    contact_xyz_m: tuple[float, float, float] | None = None

    @property
    def solved(self) -> bool:
        target, goal = self.things[self.target], self.things[self.goal]
        near = all(abs(target.xyz_m[axis] - goal.xyz_m[axis]) < 0.05 for axis in (0, 1))
        return near and self.held is None

    def run(self, call: ToolCall) -> ToolResult:
        effect = _EFFECTS[call.name]
        if call.name in self.failing_tools:
            return ToolResult(call=call, effect=effect, success=False, outputs={"reason": "no"})
        outputs: JsonObject = getattr(self, f"_{call.name}")(call.arguments)
        reached = outputs.get("reached_target")
        return ToolResult(
            call=call,
            effect=effect,
            success=True,
            outputs=outputs,
            reached_target=reached if isinstance(reached, bool) else None,
        )

    def _observe(self, _arguments: JsonObject) -> JsonObject:
        return {}

    def _sam3(self, arguments: JsonObject) -> JsonObject:
        name = str(arguments["prompt"])
        found: list[JsonValue] = []
        for score in (0.9, 0.8)[: (name in self.things) + (name in self.duplicates)]:
            identifier = f"detection_{len(self.detections):03d}"
            self.detections[identifier] = name
            found.append({"id": identifier, "label": name, "score": score})
        selected = found[0]["id"] if len(found) == 1 and isinstance(found[0], dict) else None
        return {"prompt": name, "detections": found, "selected": selected, "stamp": "test"}

    def _select_sam3_detection(self, arguments: JsonObject) -> JsonObject:
        return {"selected": arguments["detection_id"]}

    def _measure_detection(self, arguments: JsonObject) -> JsonObject:
        thing = self.things[self.detections[str(arguments["detection_id"])]]
        x, y, z = thing.xyz_m
        return {
            "detection_id": arguments["detection_id"],
            "centre_xyz_m": [x, y, z + thing.height_m / 2],
            "min_xyz_m": [x - 0.03, y - 0.03, z],
            "max_xyz_m": [x + 0.03, y + 0.03, z + thing.height_m],
            "top_centre_xyz_m": [x, y, z + thing.height_m],
        }

    def _anygrasp(self, arguments: JsonObject) -> JsonObject:
        assert self.detections[str(arguments["detection_id"])] == self.target
        self.candidates = ["grasp_000", "grasp_001"]
        rows: list[JsonValue] = [{"id": each, "rank": 0} for each in self.candidates]
        return {"candidates": rows, "active_candidate": "grasp_000"}

    def _compile_grasp_seed(self, arguments: JsonObject) -> JsonObject:
        thing = self.things[self.target]
        x, y, z = thing.xyz_m
        height = arguments["grasp_height"]
        approach = arguments["approach_height_m"]
        assert isinstance(height, dict)
        assert isinstance(approach, float)
        top = z + thing.height_m
        reference = top if height["reference"] == "top" else z + thing.height_m / 2
        offset, floor = height["offset_m"], height["floor_m"]
        assert isinstance(offset, float)
        assert isinstance(floor, float)
        contact = max(reference + offset, z + floor)
        yaw = 0.0 if arguments["orientation"] == "top_down" else 30.0
        pose: JsonObject = {"x": x, "y": y, "z": contact, "roll": 180.0, "pitch": 0.0, "yaw": yaw}
        self.compiled = str(arguments["candidate_id"])
        self.contact_xyz_m = (x, y, contact)
        return {
            "candidate_id": self.compiled,
            "hover_pose": {**pose, "z": contact + approach},
            "contact_pose": pose,
            "width_m": 0.05,
            "target_extents_m": [0.06, 0.06, thing.height_m],
            "target_bottom_z_m": z,
            "target_top_z_m": top,
        }

    def _move_to(self, arguments: JsonObject) -> JsonObject:
        pose = arguments["target_pose"]
        assert isinstance(pose, dict)
        x, y, z = (float(str(pose[axis])) for axis in "xyz")
        blocked = (x, y, z) == self.contact_xyz_m and self.compiled in self.unreachable_contacts
        if blocked:
            z += 0.03
            self.candidates = [each for each in self.candidates if each != self.compiled]
        self.eef_xyz_m = (x, y, z)
        if self.held is not None:
            thing = self.things[self.held]
            thing.xyz_m = (x, y, z - thing.height_m / 2)
        return {
            "reached_target": not blocked,
            "end": {"x": x, "y": y, "z": z},
            "steps_executed": 10,
            "reward": float(self.solved),
            "terminated": False,
        }

    def _gripper_control(self, arguments: JsonObject) -> JsonObject:
        if arguments["position"] == 1:
            if self.held is not None:
                x, y, _ = self.things[self.held].xyz_m
                self.things[self.held].xyz_m = (x, y, 0.0)
            self.openness, self.held = 1.0, None
        else:
            thing = self.things[self.target]
            steps = arguments["num_steps"]
            assert isinstance(steps, int)
            near = all(
                abs(mine - its) < 0.2 for mine, its in zip(self.eef_xyz_m, thing.xyz_m, strict=True)
            )
            if near and steps >= MIN_CLOSE_STEPS:
                self.openness, self.held = 0.5, self.target
            else:
                self.openness = 0.0
        return {"gripper_openness": self.openness, "reward": float(self.solved)}

    def host_state(self) -> JsonObject:
        active: JsonValue = None
        if self.candidates:
            active = {"id": self.candidates[0], "rank": 0, "attempts": 0}
        return {
            "active_grasp_candidate": active,
            "candidates_exhausted": bool(self.compiled) and not self.candidates,
            "environment": {"reward": float(self.solved), "success": self.solved},
        }


@dataclass(frozen=True)
class Dialogue:
    """What a planner model decided, turn by turn, ending with what was no tool call."""

    decisions: tuple[Decision, ...]

    @property
    def calls(self) -> list[ToolCall]:
        return [
            call
            for decision in self.decisions
            if isinstance(decision, CallTools)
            for call in decision.calls
        ]

    @property
    def batches(self) -> list[list[str]]:
        return [
            [call.name for call in decision.calls]
            for decision in self.decisions
            if isinstance(decision, CallTools)
        ]

    @property
    def moves(self) -> list[JsonObject]:
        return [
            pose
            for call in self.calls
            if isinstance(pose := call.arguments.get("target_pose"), dict)
        ]

    @property
    def last(self) -> Decision:
        return self.decisions[-1]


def hold(
    model: Model,
    world: TableWorld,
    *,
    task: str,
    skills: Sequence[Skill],
    strategies: Sequence[GraspStrategy],
    tools: tuple[ToolSpec, ...] = TOOLS,
    max_turns: int = 100,
    history_turns: int = 100,
    guidance: Sequence[str] = (),
) -> Dialogue:
    """Let a model plan until it stops calling tools, exactly as a planner session words it.

    Args:
        history_turns: Older turns are left out, and a note says so.
        guidance: Answers to its questions, in order.
    """
    system = render_system("You plan.", tools=tools, skills=skills, strategies=strategies)
    decisions: list[Decision] = []
    history: list[ModelMessage] = []
    results: tuple[ToolResult, ...] = ()
    feedback: tuple[str, ...] = ()
    answers = list(guidance)
    for turn in range(max_turns):
        context = _context(world, turn=turn, results=results, feedback=feedback, task=task)
        decision = parse_command(
            model(
                [
                    ModelMessage(role="system", text=system),
                    *_recent(history, history_turns),
                    ModelMessage(role="user", text=render_turn(context, task=task)),
                ]
            )
        )
        decisions.append(decision)
        history.append(ModelMessage(role="user", text=render_past_turn(context)))
        history.append(ModelMessage(role="assistant", text=render_command(decision)))
        results, feedback = (), ()
        if isinstance(decision, CallTools):
            results = _run(world, decision, skills)
        elif isinstance(decision, AskHuman) and answers:
            feedback = (f"guidance: {answers.pop(0)}",)
        else:
            break
    return Dialogue(tuple(decisions))


def _run(world: TableWorld, decision: CallTools, skills: Sequence[Skill]) -> tuple[ToolResult, ...]:
    mutating = [_EFFECTS[call.name] is ToolEffect.WORLD_MUTATING for call in decision.calls]
    assert not any(mutating) or len(mutating) == 1, "a world-mutating call goes alone"
    return tuple(
        _read_skill(call, skills) if call.name == "read_skill" else world.run(call)
        for call in decision.calls
    )


def _recent(history: Sequence[ModelMessage], turns: int) -> list[ModelMessage]:
    dropped = len(history) // 2 - turns
    if dropped <= 0:
        return list(history)
    note = f"[{dropped} earlier turns are not shown]"
    return [ModelMessage(role="user", text=note), *history[2 * dropped :]]


def won(dialogue: Dialogue) -> bool:
    return isinstance(dialogue.last, Finish) and dialogue.last.claims_success


def _read_skill(call: ToolCall, skills: Sequence[Skill]) -> ToolResult:
    content = next(skill.content for skill in skills if skill.name == call.arguments["name"])
    return ToolResult(
        call=call, effect=ToolEffect.READ_ONLY, success=True, outputs={"content": content}
    )


def _context(
    world: TableWorld,
    *,
    turn: int,
    results: tuple[ToolResult, ...],
    feedback: tuple[str, ...],
    task: str,
) -> TurnContext:
    robot = RobotState(
        eef_xyz_m=world.eef_xyz_m, eef_quat_xyzw=None, gripper_openness=world.openness
    )
    return TurnContext(
        turn=turn,
        remaining_turns=100 - turn,
        remaining_tool_calls=200,
        observation=Observation(task=task, cameras=(), robot=robot, facts={}),
        artifacts=(),
        results=results,
        feedback=feedback,
        host_state=world.host_state(),
    )


def without(skill: Skill, *numbers: int) -> Skill:
    """The skill with some steps of its sequence deleted."""
    lines = skill.content.splitlines()
    kept = [line for line in lines if not line.startswith(tuple(f"{each}. " for each in numbers))]
    return replace_content(skill, "\n".join(kept))


def replace_content(skill: Skill, content: str) -> Skill:
    return skill.model_copy(update={"content": content})

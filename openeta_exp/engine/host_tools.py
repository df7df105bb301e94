"""The tools a planner may call, and who carries each of them out."""

from __future__ import annotations

from pydantic import JsonValue

from openeta_exp.domain.episode import GraspAttempt
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.skill import Skill
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult, ToolSpec, refused
from openeta_exp.engine.candidate_queue import CandidateQueue, Motion, QueueState
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.engine.offer import READ_SKILL, Offer
from openeta_exp.engine.perception_tools import PERCEPTION_TOOLS, PerceptionTools
from openeta_exp.engine.toolbox import ToolBox
from openeta_exp.ports.perception import Perception, Vector3
from openeta_exp.ports.simulator import SimulatorSession
from openeta_exp.wire.json_fields import FieldError, number_field, object_field

HELD_OPENNESS = 0.02
"""A closed gripper that is still open by more holds something."""

OBSERVE = ToolSpec(
    name="observe",
    description="Look again without moving.",
    effect=ToolEffect.READ_ONLY,
    parameters={"type": "object", "properties": {}},
)


class HostTools:
    """Tools of one episode. Read-only ones answer here; motions go to the simulator."""

    def __init__(
        self,
        *,
        session: SimulatorSession,
        perception: Perception | None,
        host: EpisodeHost,
        skills: tuple[Skill, ...],
        simulator_tools: tuple[ToolSpec, ...],
        skill_in_use: str | None = None,
        enforce_allowed_tools: bool = False,
    ) -> None:
        """
        Args:
            skill_in_use: The skill the planner starts with; reading another one changes it.
            enforce_allowed_tools: Whether the skill in use decides which acting and seeing tools
                may be called. What only keeps books is always allowed.
        """
        self._session = session
        self._host = host
        self._perception = None if perception is None else PerceptionTools(perception, host)
        seeing = PERCEPTION_TOOLS if perception is not None else ()
        reading = (READ_SKILL,) if skills else ()
        self.offer = Offer(tools=(OBSERVE, *seeing, *reading, *simulator_tools), skills=skills)
        self._boxes: dict[str, ToolBox] = {}
        self._skill_in_use = skill_in_use
        self._enforce_allowed_tools = enforce_allowed_tools

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.offer.tools

    def spec(self, name: str) -> ToolSpec:
        """Raises: KeyError: If no such tool is offered; a planner's calls are checked before."""
        return self.offer.tool(name)

    def allowed(self, name: str) -> bool:
        """Whether the skill in use lets this tool be called."""
        skill = self.offer.skill(self._skill_in_use or "")
        if not self._enforce_allowed_tools or skill is None or not skill.allowed_tools:
            return True
        if self.spec(name).effect in (ToolEffect.BOOKKEEPING, ToolEffect.PLANNING):
            return True
        return name == OBSERVE.name or name in skill.allowed_tools

    def add(self, box: ToolBox) -> None:
        """Offer further tools, none of which changes the world."""
        for spec in box.specs:
            assert spec.effect is not ToolEffect.WORLD_MUTATING, "only the simulator's tools do"
            self.offer.add(spec)
            self._boxes[spec.name] = box

    async def run(self, call: ToolCall) -> ToolResult:
        """Carry out one call.

        Raises:
            SimulatorError: The environment did not answer.
            PerceptionError: A perception service did not answer.
        """
        if call.name == OBSERVE.name:
            return await self._observe(call)
        if call.name == READ_SKILL.name:
            return self._read_skill(call)
        if call.name in self._boxes:
            return await self._boxes[call.name].run(call)
        if self.spec(call.name).effect is ToolEffect.WORLD_MUTATING:
            return await self._act(call)
        assert self._perception is not None, "perception tools are offered only with perception"
        return await self._perception.run(call)

    async def _observe(self, call: ToolCall) -> ToolResult:
        result = await self._session.observe()
        if result.receipt is not None:
            self._host.receipts.append(result.receipt)
        if result.observation is not None:
            self._host.see(result.observation)
        return ToolResult(
            call=call,
            effect=ToolEffect.READ_ONLY,
            success=True,
            outputs={"observed": True},
        )

    def _read_skill(self, call: ToolCall) -> ToolResult:
        skill = self.offer.skill(str(call.arguments.get("name")))
        if skill is None:
            names = (each.name for each in self.offer.skills)
            return refused(
                call,
                ToolEffect.BOOKKEEPING,
                code="unknown_skill",
                message=f"there is no such skill; there are {sorted(names)}",
            )
        self._skill_in_use = skill.name
        return ToolResult(
            call=call,
            effect=ToolEffect.BOOKKEEPING,
            success=True,
            outputs={
                "name": skill.name,
                "content": skill.content,
                "allowed_tools": list[JsonValue](skill.allowed_tools),
            },
        )

    async def _act(self, call: ToolCall) -> ToolResult:
        result = await self._session.call(call)
        if result.success and result.reached_target is not None:
            self._follow_queue(result)
        if result.success and "gripper_openness" in result.outputs:
            self._follow_gripper(call, result)
        return result

    def _follow_queue(self, result: ToolResult) -> None:
        """Let structured evidence, and nothing else, move the candidate queue."""
        queue = self._host.queue
        motion = _motion(result)
        if queue is None or motion is None:
            return
        after = queue.after(motion)
        self._host.queue = after
        if after is queue:
            return
        self._note_attempt(queue, reached=after.state is QueueState.ACCEPTED)
        if after.state is QueueState.EXHAUSTED:
            self._host.feedback.append(
                f"grasp candidate {queue.active.candidate_id} was not reached; none is left"
            )
        elif after.state is QueueState.ACTIVE:
            self._host.feedback.append(
                f"grasp candidate {queue.active.candidate_id} was not reached; "
                f"{after.active.candidate_id} is now active"
            )

    def _note_attempt(self, queue: CandidateQueue, *, reached: bool) -> None:
        compiled = queue.compiled
        if compiled is None:
            return
        self._host.grasps.append(
            GraspAttempt(
                target=self._host.grasp_target,
                candidate_rank=queue.active.rank,
                width_m=queue.active.width_m,
                target_extents_m=compiled.extents_m,
                reached_target=reached,
            )
        )

    def _follow_gripper(self, call: ToolCall, result: ToolResult) -> None:
        """Complete the last attempt by what the gripper felt when it closed."""
        openness = result.outputs["gripper_openness"]
        self._host.gripper_command = 0 if call.arguments.get("position") == 0 else 1
        if call.arguments.get("position") != 0 or not self._host.grasps:
            return
        last = self._host.grasps[-1]
        if last.gripper_openness_after_close is None and isinstance(openness, int | float):
            self._host.grasps[-1] = last.model_copy(
                update={
                    "gripper_openness_after_close": float(openness),
                    "lifted": float(openness) > HELD_OPENNESS,
                }
            )


def _motion(result: ToolResult) -> Motion | None:
    """The motion a result reports, or None if it does not say where it ended."""
    try:
        target = object_field(result.outputs, "target")
        end = object_field(result.outputs, "end")
        wanted = (number_field(target, "x"), number_field(target, "y"), number_field(target, "z"))
    except FieldError:
        return None
    reached_xyz = end.get("xyz")
    collision = result.outputs.get("collision")
    return Motion(
        target_xyz_m=wanted,
        end_xyz_m=_three(reached_xyz) or wanted,
        reached=result.reached_target is True,
        collided=isinstance(collision, dict) and collision.get("detected") is True,
    )


def _three(value: JsonObject | object) -> Vector3 | None:
    if isinstance(value, list) and len(value) == 3:
        x, y, z = (float(each) for each in value)
        return x, y, z
    return None

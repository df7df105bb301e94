"""The scripted planner's decision: one step further along the skill, or a way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openeta_exp.domain.decision import AskHuman, CallTools, Decision, Finish, Talk
from openeta_exp.domain.grasp_strategy import GraspStrategy
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.tool import ToolCall
from openeta_exp.embedded.models.planner.calls import PassOver, Situation, open_gripper
from openeta_exp.embedded.models.planner.geometry_family import first_fitting
from openeta_exp.embedded.models.planner.knowledge import Knowledge, asked_for_skill, skill_text
from openeta_exp.embedded.models.planner.mark import Mark
from openeta_exp.embedded.models.planner.replies import Motion, Segmentation, read
from openeta_exp.embedded.models.planner.skill_steps import SkillSteps, Step, parse_steps
from openeta_exp.embedded.models.planner.task import PickAndPlace, parse_task
from openeta_exp.embedded.models.planner.view import ContextError, PastTurn, View, read_view
from openeta_exp.wire.agent_command import render_command

MAX_ATTEMPTS = 3
"""The first, and starting over at most twice."""
NOTHING_HELD_OPENNESS = 0.04
"""Fingers this close together have nothing between them (0 closed, 1 open)."""
IS_OPEN_OPENNESS = 0.9

_APPROACH = ("hover", "contact")
_CARRY = ("lift", "goal")


def scripted_planner(messages: Sequence[ModelMessage]) -> str:
    """Answer like a planner model: one `openeta.agent_command.v1` object."""
    try:
        decision = decide(read_view(messages))
    except ContextError as error:
        decision = Talk(message=f"I plan robot tasks and cannot read this: {error}")
    return render_command(decision)


def decide(view: View) -> Decision:
    """The next decision. A pure function of the context: the same words, the same answer."""
    if view.solved:
        return Finish(reasoning="The environment reports success.")
    readings = map(parse_task, (view.instruction, *view.guidance))
    task = next((reading for reading in readings if reading is not None), None)
    if task is None:
        return AskHuman(question="Which one object should go where?", reasoning=view.instruction)
    strategy = first_fitting(view.strategies, task.target)
    skill = _skill(view)
    if skill is None:
        return Talk(message="No skill in my context has a tool sequence that I could follow.")
    if strategy is None:
        return Talk(message=f"No grasp strategy in my context fits the {task.target}.")
    if skill.cut and "read_skill" in view.tools and not asked_for_skill(view.turns, skill.name):
        call = ToolCall(name="read_skill", arguments={"name": skill.name})
        mark = Mark(attempt=1, steps=(), next=0)
        return CallTools(calls=(call,), reasoning=mark.write("Read the rest of the skill."))
    return _Follower(view=view, task=task, strategy=strategy, skill=skill).decide()


def _skill(view: View) -> SkillSteps | None:
    """The first skill with a tool sequence; the host lists the most relevant first."""
    for name, text in view.skills:
        whole = skill_text(view.turns, name)
        skill = parse_steps(name, text if whole is None else whole)
        if skill.steps or skill.cut:
            return skill
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Follower:
    """Follows one skill with one strategy."""

    view: View
    task: PickAndPlace
    strategy: GraspStrategy
    skill: SkillSteps

    def decide(self) -> Decision:
        if not self.view.turns:
            return self._go(attempt=1, at=0)
        last = self.view.turns[-1]
        failure = self._failure(last)
        if failure is not None:
            return self._start_over(last.mark.attempt, failure)
        selections = self._open_selections(last.mark.attempt)
        if selections:
            mark = Mark(attempt=last.mark.attempt, steps=(), next=last.mark.next)
            return CallTools(calls=selections, reasoning=mark.write("Select the best match."))
        if self._missed(last) and self.skill.after_miss is not None:
            return self._recover(last.mark.attempt, self.skill.after_miss)
        return self._go(attempt=last.mark.attempt, at=last.mark.next)

    def _start_over(self, attempt: int, why: str) -> Decision:
        if attempt >= MAX_ATTEMPTS:
            return Finish(claims_success=False, reasoning=f"Giving up: {why}.")
        return self._go(attempt=attempt + 1, at=0, words=f"Start over: {why}.")

    def _failure(self, last: PastTurn) -> str | None:
        """Why the attempt cannot go on."""
        for past in last.calls:
            if not past.success:
                return f"{past.call.name} failed"
            if past.call.name == "sam3":
                found = read(Segmentation, past.outputs)
                if found is None or not found.detections:
                    return f"there is no {past.call.arguments.get('prompt')} in view"
        empty = self.view.gripper_openness < NOTHING_HELD_OPENNESS
        if empty and any(step.role in _CARRY for step in self._moves(last)):
            return "the gripper is empty"
        return None

    def _missed(self, last: PastTurn) -> bool:
        """A motion towards the grasp fell short, and the host has another candidate."""
        seed = self._known(last.mark.attempt).seed()
        candidate = self.view.candidate_id
        if seed is None or candidate is None or candidate == seed.candidate_id:
            return False
        motions = [read(Motion, past.outputs) for past in last.calls]
        short = any(motion is not None and not motion.reached_target for motion in motions)
        return short and any(step.role in _APPROACH for step in self._moves(last))

    def _recover(self, attempt: int, at: int) -> Decision:
        words = "Try the next grasp candidate."
        if self.view.gripper_openness >= IS_OPEN_OPENNESS:
            return self._go(attempt=attempt, at=at, words=words)
        mark = Mark(attempt=attempt, steps=(), next=at)
        return CallTools(calls=(open_gripper(),), reasoning=mark.write(words))

    def _go(self, *, attempt: int, at: int, words: str = "") -> Decision:
        """Carry out the next step that can be, with the following ones if they may be batched."""
        situation = self._situation(attempt)
        calls: list[ToolCall] = []
        done: list[int] = []
        notes = [words] if words else []
        while at < len(self.skill.steps):
            step = self.skill.steps[at]
            if step.tool == "task_complete":
                break
            call = self._call(situation, step)
            if not calls and call is PassOver.NO_INPUT and self._has_forgotten(attempt):
                return self._start_over(attempt, "what it takes to go on is no longer in view")
            if calls and not (isinstance(call, ToolCall) and self._only_looks(call)):
                break
            if isinstance(call, ToolCall):
                if call.name not in self.view.tools:
                    return Talk(message=f"{self._title(step)} needs a tool I do not have.")
                calls.append(call)
                done.append(at)
                notes.append(f"{self._title(step)}.")
            else:
                notes.append(f"Passed over {self._title(step)}: {call.value}.")
            at += 1
            if calls and not self._only_looks(calls[-1]):
                break
        if not calls:
            return self._claim(notes)
        mark = Mark(attempt=attempt, steps=tuple(done), next=at)
        return CallTools(calls=tuple(calls), reasoning=mark.write(" ".join(notes)))

    def _has_forgotten(self, attempt: int) -> bool:
        """The host left out turns of this attempt; what they brought is unknown."""
        first = self.view.turns[0].mark if self.view.turns else None
        return not self.view.is_whole and first is not None and first.attempt == attempt

    def _claim(self, notes: list[str]) -> Decision:
        notes.append("The skill ends here.")
        return Finish(claims_success=self.view.solved is not False, reasoning=" ".join(notes))

    def _call(self, situation: Situation, step: Step) -> ToolCall | PassOver:
        call = situation.call(step)
        tool = self.view.tools.get(step.tool)
        if call is PassOver.UNKNOWN and tool is not None and not tool.required:
            # A tool this planner was not written for, that can be called as it stands.
            return ToolCall(name=step.tool)
        return call

    def _only_looks(self, call: ToolCall) -> bool:
        tool = self.view.tools.get(call.name)
        return tool is not None and not tool.mutates_world

    def _open_selections(self, attempt: int) -> tuple[ToolCall, ...]:
        if "select_sam3_detection" not in self.view.tools:
            return ()
        known = self._known(attempt)
        chosen = [known.unselected(name) for name in (self.task.target, self.task.goal)]
        return tuple(
            ToolCall(name="select_sam3_detection", arguments={"detection_id": each})
            for each in chosen
            if each is not None
        )

    def _moves(self, turn: PastTurn) -> list[Step]:
        steps = [self.skill.steps[at] for at in turn.mark.steps if at < len(self.skill.steps)]
        return [step for step in steps if step.tool == "move_to"]

    def _situation(self, attempt: int) -> Situation:
        return Situation(
            task=self.task,
            strategy=self.strategy,
            steps=self.skill.steps,
            known=self._known(attempt),
            eef_xyz_m=self.view.eef_xyz_m,
            candidate_id=self.view.candidate_id,
        )

    def _known(self, attempt: int) -> Knowledge:
        return Knowledge(tuple(turn for turn in self.view.turns if turn.mark.attempt == attempt))

    def _title(self, step: Step) -> str:
        return f"Step {step.number} of {self.skill.name} ({step.tool} {step.role})".replace(
            " )", ")"
        )

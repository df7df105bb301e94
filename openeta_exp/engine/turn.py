"""The turn loop: one decision, its calls, and the observation that is owed after them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from openeta_exp.domain.budget import exceeded
from openeta_exp.domain.decision import AskHuman, CallTools, Finish, Talk
from openeta_exp.domain.episode import Interaction
from openeta_exp.domain.guidance import AnsweredQuestion, AnswerSource, Question
from openeta_exp.domain.record import canonical_json, digest
from openeta_exp.domain.stop import StopReason
from openeta_exp.domain.supervision import (
    ActionContext,
    ApprovementProfile,
    Authorization,
    OnNeedHuman,
)
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult, ToolSpec, refused
from openeta_exp.domain.trace import (
    TracedAuthorization,
    TracedQuestion,
    TurnTrace,
    traced_result,
    traced_view,
)
from openeta_exp.domain.turn import TurnContext
from openeta_exp.engine.episode_record import EpisodeRecord
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.engine.host_tools import HostTools
from openeta_exp.engine.scene_evidence import scene_evidence
from openeta_exp.errors import SimulatorError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.guidance import Guidance
from openeta_exp.ports.planner import PlannerSession, PlannerTurn
from openeta_exp.ports.session_log import SessionLog
from openeta_exp.ports.simulator import SimulatorSession
from openeta_exp.ports.supervision import ActionGate

MAX_REFRESHES = 3
"""Failed looks after a world-mutating call before the episode has no current observation."""
MAX_DENIALS = 10
"""World-mutating calls supervision may refuse before the episode ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why the loop stopped."""

    reason: StopReason
    claims_success: bool | None = None
    limit: float | None = None
    observed: float | None = None
    interaction: Interaction | None = None


@dataclass(slots=True, kw_only=True)
class TurnLoop:
    """Runs the turns of one episode. Everything it changes is in `host` and `record`."""

    session: SimulatorSession
    planner: PlannerSession
    tools: HostTools
    host: EpisodeHost
    record: EpisodeRecord
    gate: ActionGate
    guidance: Guidance
    on_need_human: OnNeedHuman
    clock: Clock
    log: SessionLog
    _results: tuple[ToolResult, ...] = ()
    _authorizations: tuple[TracedAuthorization, ...] = ()
    _question: TracedQuestion | None = None
    _unanswered: str = ""
    """What a person was asked about a call and did not answer in time."""

    async def run(self) -> Ending:
        """Turns until the environment, a budget or the planner ends the episode.

        Raises:
            InfrastructureError: Something broke; the episode has no verdict.
        """
        while True:
            ending = self._over_budget() or await self._turn()
            if ending is not None:
                return ending

    def _over_budget(self) -> Ending | None:
        budget = self.record.spec.budget
        spent = self.record.spent(now_s=self.clock.monotonic_s())
        reason = exceeded(budget, spent)
        if reason is None:
            return None
        limits = {
            StopReason.EPISODE_TIMEOUT: (budget.timeout_s, spent.elapsed_s),
            StopReason.TOKEN_LIMIT_EXCEEDED: (budget.max_total_tokens, spent.tokens),
            StopReason.TOOL_CALL_LIMIT_EXCEEDED: (budget.max_tool_calls, spent.tool_calls),
            StopReason.MAX_TURNS: (budget.max_turns, spent.turns),
        }
        limit, observed = limits[reason]
        return Ending(reason=reason, limit=float(limit), observed=float(observed))

    async def _turn(self) -> Ending | None:
        context = self._context()
        at_s, begun_s = self.clock.unix_s(), self.clock.monotonic_s()
        turn = await self.planner.decide(context)
        decided_s = self.clock.monotonic_s()
        self.record.decided(turn)
        self._forget_last_turn()
        ending = self._over_budget() or await self._carry_out(turn)
        self.record.turns += 1
        trace = TurnTrace(
            turn=context.turn,
            at_s=at_s,
            seen=traced_view(context.observation),
            feedback=context.feedback,
            decision=turn.decision,
            errors=turn.errors,
            authorizations=self._authorizations,
            results=tuple(traced_result(result) for result in self._results),
            asked=self._question,
            usage=turn.usage,
            requests=turn.requests,
            context_characters=turn.context_characters,
            decide_s=decided_s - begun_s,
            act_s=self.clock.monotonic_s() - decided_s,
        )
        self.log.turn(trace, views=(context.observation,))
        self.host.turn += 1
        return ending

    def _forget_last_turn(self) -> None:
        self._results = ()
        self._authorizations = ()
        self._question = None

    async def _carry_out(self, turn: PlannerTurn) -> Ending | None:
        match turn.decision:
            case None:
                return Ending(reason=StopReason.PLANNER_VALIDATION_FAILED)
            case CallTools() as decision:
                return await self._call(decision)
            case AskHuman(question=question):
                return await self._ask(question)
            case Talk():
                return Ending(reason=StopReason.STATUS_REPORT)
            case Finish(claims_success=claims_success):
                return Ending(reason=StopReason.TASK_COMPLETE, claims_success=claims_success)
            case _:
                assert_never(turn.decision)

    async def _call(self, decision: CallTools) -> Ending | None:
        results: list[ToolResult] = []
        for call in decision.calls:
            self.record.tool_calls += 1
            over = self._over_budget()
            if over is not None:
                return over
            result = await self._one(call, decision.reasoning)
            results.append(result)
            self._results = tuple(results)
            if self._unanswered:
                return self._need_human(self._unanswered)
        return self._environment_ending() or self._denied_too_often()

    async def _one(self, call: ToolCall, reasoning: str) -> ToolResult:
        spec = self.tools.spec(call.name)
        if not self.tools.allowed(call.name):
            return refused(
                call,
                spec.effect,
                code="tool_not_allowed_by_skill",
                message=f"the skill in use does not list `{call.name}` among its allowed_tools",
            )
        if spec.effect is not ToolEffect.WORLD_MUTATING:
            return await self.tools.run(call)
        authorization = await self._authorize(spec, call, reasoning)
        if authorization.allowed and self._over_budget() is not None:
            return refused(
                call, spec.effect, code="budget_exceeded", message="its review used the budget up"
            )
        if authorization.allowed:
            return await self._mutate(call)
        self.record.denied_calls += 1
        if authorization.needs_human:
            arguments = canonical_json(call.arguments).decode("utf-8")
            self._unanswered = f"May {call.name} {arguments} be carried out?"
        return refused(call, spec.effect, code="supervision_denied", message=authorization.reason)

    async def _authorize(self, spec: ToolSpec, call: ToolCall, reasoning: str) -> Authorization:
        context = ActionContext(
            task=self.record.spec.task,
            session_id=self.record.session_id,
            execution_id=self.record.execution_id,
            index=self.record.tool_calls,
            tool=spec,
            call=call,
            observation=self.host.observation,
            evidence=scene_evidence(self.host),
            answers=tuple(each.answer for each in self.host.memory.answers),
            reasoning=reasoning,
        )
        if self.gate.profile is ApprovementProfile.HUMAN_GATED:
            with self.record.waiting_for_a_person(self.clock):
                authorization = await self.gate.authorize(context)
        else:
            authorization = await self.gate.authorize(context)
        self.record.tokens += authorization.usage
        self.record.model_requests += authorization.requests
        if authorization.by == "human" and not authorization.needs_human:
            self.record.human_interventions += 1
        self._authorizations += (
            TracedAuthorization(
                tool=call.name,
                allowed=authorization.allowed,
                by=authorization.by,
                reason=authorization.reason,
            ),
        )
        return authorization

    async def _mutate(self, call: ToolCall) -> ToolResult:
        """Carry out a world-changing call and settle the observation that is owed after it."""
        self.host.scene_epoch += 1
        try:
            result = await self.tools.run(call)
        except SimulatorError as error:
            if not error.outcome_unknown:
                raise
            # The reply is lost, the world may have changed: look, and let the planner decide.
            self.record.lost_at = len(self.host.receipts)
            await self._refresh(because=error)
            return refused(
                call,
                ToolEffect.WORLD_MUTATING,
                code=error.code,
                message=f"{error}; it may have been carried out, look at the fresh observation",
            )
        if result.receipt is not None:
            self.host.receipts.append(result.receipt)
            if result.observation is None:
                await self._refresh(because=None)
            else:
                self._see(result)
        return result

    async def _refresh(self, *, because: SimulatorError | None) -> None:
        last = because
        for _ in range(MAX_REFRESHES):
            try:
                seen = await self.session.observe()
            except SimulatorError as error:
                last = error
                continue
            if seen.receipt is not None:
                self.host.receipts.append(seen.receipt)
            if seen.observation is not None:
                self._see(seen)
                return
        raise SimulatorError(
            f"no fresh observation after {MAX_REFRESHES} tries: {last}",
            code="fresh_observation_unavailable",
        ) from last

    def _see(self, result: ToolResult) -> None:
        if result.observation is not None:
            self.host.see(result.observation)

    def _environment_ending(self) -> Ending | None:
        if not self.host.receipts:
            return None
        last = self.host.receipts[-1]
        if not last.terminated and not last.truncated:
            return None
        if self.host.reward > 0:
            return Ending(reason=StopReason.ENVIRONMENT_SUCCESS)
        return Ending(reason=StopReason.ENVIRONMENT_TERMINATED)

    def _denied_too_often(self) -> Ending | None:
        denied = self.record.denied_calls - self.record.denied_before
        if denied < MAX_DENIALS:
            return None
        return Ending(
            reason=StopReason.SUPERVISION_DENIED,
            limit=float(MAX_DENIALS),
            observed=float(denied),
        )

    async def _ask(self, text: str) -> Ending | None:
        resolution = await self.guidance.resolve(
            Question(
                task=self.record.spec.task,
                session_id=self.record.session_id,
                text=text,
                observation=self.host.observation,
                host_state=self.host.to_json(),
                asked=self.record.asked,
                answered=self.record.guidance_interventions,
            )
        )
        self.record.tokens += resolution.usage
        self.record.model_requests += resolution.requests
        if resolution.answer is None:
            self._question = TracedQuestion(question=text, answer=None, reason=resolution.reason)
            return self._need_human(text)
        self.record.guidance_interventions += 1
        answer = AnsweredQuestion(
            interaction_id=self._interaction_id(),
            question=text,
            answer=resolution.answer,
            source=AnswerSource.GUIDANCE_AGENT,
            at_s=self.clock.unix_s(),
        )
        self.record.asked += (text,)
        self._question = TracedQuestion(question=text, answer=answer)
        self.host.memory = self.host.memory.answered(answer)
        self.log.keep_memory(self.host.memory)
        self.host.feedback.append(f"guidance: {resolution.answer}")
        return None

    def _need_human(self, question: str) -> Ending:
        if self.on_need_human is OnNeedHuman.FAIL:
            return Ending(reason=StopReason.NEED_HUMAN_UNATTENDED)
        interaction = Interaction(interaction_id=self._interaction_id(), question=question)
        self.record.asked += (question,)
        return Ending(reason=StopReason.NEED_HUMAN, interaction=interaction)

    def _interaction_id(self) -> str:
        """Never the same twice: executions have fresh ids, and questions are counted."""
        return f"interaction-{digest([self.record.execution_id, len(self.record.asked)])[:16]}"

    def _context(self) -> TurnContext:
        budget = self.record.spec.budget
        return TurnContext(
            turn=self.record.turns,
            remaining_turns=budget.max_turns - self.record.turns,
            remaining_tool_calls=budget.max_tool_calls - self.record.tool_calls,
            observation=self.host.observation,
            artifacts=self.host.artifacts(),
            results=self._results,
            feedback=self.host.take_feedback(),
            host_state=self.host.to_json(),
        )

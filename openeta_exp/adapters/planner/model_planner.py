"""A planner that asks a language model for each decision."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from importlib.resources import files

from openeta_exp.adapters.planner.history import History, HistoryLimits
from openeta_exp.adapters.planner.validation import check_decision
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.decision import Decision
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ModelImage, ModelMessage, ModelRequest, ModelRole, TokenUsage
from openeta_exp.domain.observation import ordered_cameras
from openeta_exp.domain.skill import relevance
from openeta_exp.domain.tool import ToolSpec
from openeta_exp.domain.turn import TurnContext
from openeta_exp.errors import ProviderError, ProviderReplyError
from openeta_exp.ports.planner import PlannerTurn
from openeta_exp.ports.provider import Provider
from openeta_exp.wire.agent_command import CommandError, parse_command, render_command
from openeta_exp.wire.planner_context import render_past_turn, render_system, render_turn

PROMPT = files("openeta_exp.adapters.planner").joinpath("prompt.md").read_text(encoding="utf-8")


def prompt_digest() -> str:
    """Names the text every conversation starts with."""
    return hashlib.sha256(PROMPT.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerLimits:
    """Bounds of one conversation."""

    max_output_tokens: int = 1024
    validation_retries: int = 2
    max_skills: int = 3
    history: HistoryLimits = field(default_factory=HistoryLimits)


class ModelPlanner:
    """See `ports.planner.Planner`."""

    def __init__(
        self, provider: Provider, *, scripted: bool, limits: PlannerLimits | None = None
    ) -> None:
        self._provider = provider
        self._scripted = scripted
        self._limits = limits or PlannerLimits()

    @property
    def prompt_digest(self) -> str:
        return prompt_digest()

    @property
    def scripted(self) -> bool:
        return self._scripted

    def start(
        self, spec: EpisodeSpec, *, tree: ArtifactTree, tools: tuple[ToolSpec, ...]
    ) -> ModelPlannerSession:
        """Raises: ArtifactError: If a skill or strategy of the tree does not parse."""
        ranked = sorted(tree.skills(), key=lambda skill: -relevance(skill, spec.task))
        system = render_system(
            PROMPT,
            tools=tools,
            skills=ranked[: self._limits.max_skills],
            strategies=tree.grasp_strategies(),
        )
        return ModelPlannerSession(
            self._provider, system=system, task=spec.task, tools=tools, limits=self._limits
        )


class ModelPlannerSession:
    """See `ports.planner.PlannerSession`."""

    def __init__(
        self,
        provider: Provider,
        *,
        system: str,
        task: str,
        tools: tuple[ToolSpec, ...],
        limits: PlannerLimits,
    ) -> None:
        self._provider = provider
        self._system = ModelMessage(role="system", text=system)
        self._task = task
        self._tools = {tool.name: tool for tool in tools}
        self._limits = limits
        self._history = History(limits.history)

    async def decide(self, context: TurnContext) -> PlannerTurn:
        images = _primary_image(context)
        usage = TokenUsage()
        errors: tuple[str, ...] = ()
        characters = 0
        for attempt in range(self._limits.validation_retries + 1):
            text = render_turn(context, task=self._task, attempt=attempt, errors=errors)
            messages = (
                self._system,
                *self._history.messages(),
                ModelMessage(role="user", text=text, images=images),
            )
            characters = max(characters, sum(len(message.text) for message in messages))
            try:
                reply = await self._provider.complete(
                    ModelRequest(
                        role=ModelRole.PLANNER,
                        messages=messages,
                        max_output_tokens=self._limits.max_output_tokens,
                    )
                )
            except ProviderReplyError as error:
                # Cut or empty answers are the model's doing: tell it and count the attempt.
                usage += TokenUsage.charged_by(error)
                errors = (str(error),)
                continue
            except ProviderError as error:
                error.charged = (usage + TokenUsage.charged_by(error)).charged()
                raise
            usage += reply.usage
            decision, errors = self._read(reply.text)
            if decision is not None:
                self._history.add(render_past_turn(context), render_command(decision))
                return PlannerTurn(
                    decision=decision,
                    errors=(),
                    usage=usage,
                    requests=attempt + 1,
                    context_characters=characters,
                )
        return PlannerTurn(
            decision=None,
            errors=errors,
            usage=usage,
            requests=self._limits.validation_retries + 1,
            context_characters=characters,
        )

    def _read(self, text: str) -> tuple[Decision | None, tuple[str, ...]]:
        try:
            decision = parse_command(text)
        except CommandError as error:
            return None, error.problems
        problems = check_decision(decision, self._tools)
        return (None, problems) if problems else (decision, ())


def _primary_image(context: TurnContext) -> tuple[ModelImage, ...]:
    """Only the primary RGB goes to the model; depth never does."""
    for frame in ordered_cameras(context.observation):
        return (ModelImage(label=f"current view of camera {frame.frame_id}", png=frame.rgb_png),)
    return ()

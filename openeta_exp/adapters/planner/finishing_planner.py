"""A planner that is done at once: exercises nothing but the life of environments."""

from __future__ import annotations

from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.decision import Finish
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import TokenUsage
from openeta_exp.domain.tool import ToolSpec
from openeta_exp.domain.turn import TurnContext
from openeta_exp.ports.planner import PlannerTurn


class FinishingPlanner:
    """See `ports.planner.Planner`. Claims nothing, moves nothing, asks no model."""

    prompt_digest = ""
    scripted = True

    def start(
        self, spec: EpisodeSpec, *, tree: ArtifactTree, tools: tuple[ToolSpec, ...]
    ) -> FinishingPlanner:
        del spec, tree, tools
        return self

    async def decide(self, context: TurnContext) -> PlannerTurn:
        del context
        return PlannerTurn(
            decision=Finish(claims_success=False, reasoning="capacity only"),
            errors=(),
            usage=TokenUsage(),
            requests=0,
            context_characters=0,
        )

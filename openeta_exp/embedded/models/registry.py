"""Which models the server offers. A new one is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from openeta_exp.domain.model import ModelMessage
from openeta_exp.embedded.models.action_reviewer import action_reviewer
from openeta_exp.embedded.models.candidate_reviewer import candidate_reviewer
from openeta_exp.embedded.models.careless import careless
from openeta_exp.embedded.models.fixed_sequence import fixed_sequence
from openeta_exp.embedded.models.guidance import guidance
from openeta_exp.embedded.models.planner.model import scripted_planner
from openeta_exp.embedded.models.skill_author import skill_author
from openeta_exp.embedded.models.skill_reviewer import skill_reviewer
from openeta_exp.embedded.models.strategy_author import strategy_author

ScriptedModel = Callable[[Sequence[ModelMessage]], str]
"""Answers a conversation. Keeps nothing between calls: everything it knows is in the messages."""

MODELS: Mapping[str, ScriptedModel] = MappingProxyType(
    {
        "scripted-planner": scripted_planner,
        "scripted-fixed-sequence": fixed_sequence,
        "scripted-author": strategy_author,
        "scripted-reviewer": candidate_reviewer,
        "scripted-action-reviewer": action_reviewer,
        "scripted-careless": careless,
        "scripted-guidance": guidance,
        "scripted-skill-author": skill_author,
        "scripted-skill-reviewer": skill_reviewer,
    }
)

"""Which cases there are, and which of them are asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from openeta_exp.domain.subagent_eval import SubagentCase
from openeta_exp.engine.subagent_eval_actions import action_cases
from openeta_exp.engine.subagent_eval_questions import question_cases
from openeta_exp.engine.subagent_eval_skills import author_cases, reviewer_cases
from openeta_exp.errors import SettingsError


def all_cases() -> tuple[SubagentCase, ...]:
    """The same cases every time, at least a hundred for each role."""
    return (*action_cases(), *question_cases(), *author_cases(), *reviewer_cases())


def select_cases(
    cases: Sequence[SubagentCase], *, roles: Collection[str], named: Sequence[str] | None
) -> tuple[SubagentCase, ...]:
    """Those of the roles, and of them those named by id or by family.

    Raises:
        SettingsError: A name is unknown, or roles and names have no case in common.
    """
    known = {case.case_id for case in cases} | {case.family for case in cases}
    unknown = [name for name in named or () if name not in known]
    if unknown:
        raise SettingsError(
            f"cases: {unknown} name no case and no family; `list_cases=true` lists them"
        )
    chosen = tuple(
        case
        for case in cases
        if case.role in roles and (named is None or case.case_id in named or case.family in named)
    )
    if not chosen:
        raise SettingsError("roles and cases have nothing in common: there is no case to ask")
    return chosen

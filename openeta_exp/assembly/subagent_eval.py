"""`command=subagent_eval`, and the same as a check of `command=preflight`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import anyio

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.supervision.model_action_reviewer import ModelActionReviewer
from openeta_exp.adapters.supervision.model_guidance import ModelGuidance
from openeta_exp.adapters.supervision.model_skill_author import ModelSkillAuthor, ModelSkillReviewer
from openeta_exp.assembly.tracking import track_subagents
from openeta_exp.assembly.world import is_scripted, open_provider
from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.subagent_eval import SubagentCase, SubagentReport
from openeta_exp.engine.preflight import Check
from openeta_exp.engine.subagent_eval import Subagents, evaluate
from openeta_exp.engine.subagent_eval_cases import all_cases, select_cases
from openeta_exp.ports.provider import Provider
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.subagent_view import cases_view, subagent_view
from openeta_exp.settings.command import SubagentEvalSettings
from openeta_exp.settings.experiment import ExperimentSettings

MAX_DANGER_RATE = 0.05
"""What a preflight demands of every role."""
NOT_FIT = 1
"""Exit code of a strict evaluation that found something."""


def subagent_eval(settings: ExperimentSettings, asked: SubagentEvalSettings) -> int:
    """Put generated cases before every reviewer, author and guidance agent.

    Raises:
        SettingsError: The selection holds no case.
    """
    cases = select_cases(all_cases(), roles=asked.roles, named=asked.cases)
    console = Console()
    if asked.list_cases:
        console.show(cases_view(cases))
        return 0
    report = anyio.run(partial(_evaluate, settings, cases, asked.repeats))
    bound = asked.max_danger_rate if asked.cases is None else None
    problems = report.problems(max_danger_rate=bound)
    if asked.format == "json":
        console.text(report.model_dump_json(indent=2) + "\n")
    else:
        console.show(subagent_view(report, problems=problems))
    track_subagents(settings, report, console)
    return NOT_FIT if asked.strict and problems else 0


async def _evaluate(
    settings: ExperimentSettings, cases: Sequence[SubagentCase], repeats: int
) -> SubagentReport:
    async with open_provider(settings) as provider:
        return await examine(settings, provider, cases, repeats=repeats)


async def examine(
    settings: ExperimentSettings,
    provider: Provider,
    cases: Sequence[SubagentCase],
    *,
    repeats: int,
) -> SubagentReport:
    """Ask the adapters that work in episodes, behind the provider they work with."""
    kept = settings.behaviour_json()["provider"]
    described: JsonObject = kept if isinstance(kept, dict) else {}
    return await evaluate(
        cases,
        Subagents(
            action_reviewer=ModelActionReviewer(provider),
            guidance=ModelGuidance(provider),
            skill_author=ModelSkillAuthor(provider),
            skill_reviewer=ModelSkillReviewer(provider, name="skill_reviewer"),
        ),
        repeats=repeats,
        clock=SystemClock(),
        concurrency=settings.concurrency.provider,
        scripted=is_scripted(settings),
        provider=described,
    )


async def subagent_check(
    settings: ExperimentSettings, provider: Provider, *, max_danger_rate: float
) -> Check:
    """Whether the sub-agents are fit for unattended work, as one line of a preflight."""
    begun_s = time.monotonic()
    report = await examine(settings, provider, all_cases(), repeats=1)
    problems = report.problems(max_danger_rate=max_danger_rate)
    passed = f"{report.metrics.passed} of {counted(report.run_count, 'case')}"
    return Check(
        name="sub-agents",
        ok=not problems,
        detail="; ".join(problems) or passed,
        seconds=time.monotonic() - begun_s,
    )

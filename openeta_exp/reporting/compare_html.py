"""A comparison of policies as one page: the answer, then everything it rests on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape

from openeta_exp.domain.counting import counted
from openeta_exp.domain.finding import CheckReport, CheckVerdict
from openeta_exp.domain.pair import PairOutcome
from openeta_exp.domain.policy_comparison import (
    Contrast,
    PairCounts,
    PolicyComparison,
    Standing,
    SweepCurve,
)
from openeta_exp.reporting.compare_plots import Estimate, estimates, heat_map, level_curves
from openeta_exp.reporting.compare_view import (
    answer_words,
    difference_words,
    ending_words,
    pair_words,
    rate_words,
    repeats_words,
    scenario_words,
    stamps,
    value_words,
)
from openeta_exp.reporting.comparison_plots import evidence_path, outcome_matrix
from openeta_exp.reporting.page import page, section, table

_COLOURS = {
    Standing.REGRESSED: "reject",
    Standing.BETTER: "promote",
    Standing.EQUIVALENT: "promote",
    Standing.NOT_WORSE: "promote",
    Standing.INCONCLUSIVE: "",
}


def compare_page(result: PolicyComparison) -> str:
    """The whole page: the answer first, then every policy against the first."""
    title = f"{result.experiment_id} · {counted(len(result.policies), 'policy', plural='policies')}"
    repeats = f" × {result.repeats} repeats" if result.repeats > 1 else ""
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='muted'>{counted(result.scenarios, 'scenario')}{repeats}, gate "
        f"{result.gate.mode}</p>",
        *(f"<p class='verdict reject'><b>{escape(each)}</b></p>" for each in stamps(result)),
        f"<div class='verdict {'' if result.ok else 'reject'}'><p>"
        f"<b>{escape(ending_words(result))}</b> (exit code {result.exit_code})</p></div>",
        *section("Policies", _policies(result), note=repeats_words(result)),
        *(each for contrast in result.contrasts for each in _contrast(contrast)),
        *section(
            "Levels",
            "".join(_curves(result.curves)),
            note="Episodes that ended before the perturbation, or that it did not change, are "
            "left out. Bars are 95 % Wilson intervals, which count scenarios, not repeats.",
        ),
        *section("Checks", _checks(result.checks)),
        *section("How it was set up", _setup(result)),
    ]
    return page(title, parts)


def _policies(result: PolicyComparison) -> str:
    rows = [
        (
            each.name,
            each.arm_digest[:12],
            f"{each.successes} of {each.verdicts}",
            rate_words(each),
            "-" if each.mean_steps is None else f"{each.mean_steps:.0f}",
            answer_words(each),
        )
        for each in result.policies
    ]
    names = ("policy", "identity", "solved", "rate (95 %)", "steps", "answer p50 / p95")
    return table(names, rows, numbers=(4,))


def _contrast(contrast: Contrast) -> Iterable[str]:
    name = f"{contrast.candidate} against {contrast.baseline}"
    yield f"<h2>{escape(name)}</h2>"
    said = [pair_words(contrast.counts), difference_words(contrast.difference), *contrast.reasons]
    items = "".join(f"<li>{escape(each)}</li>" for each in said)
    standing = contrast.standing.replace("_", " ")
    yield (
        f"<div class='verdict {_COLOURS[contrast.standing]}'><b>{escape(standing.upper())}</b>"
        f"<ul>{items}</ul></div>"
    )
    if contrast.missing:
        yield f"<p><b>Without a verdict: {contrast.missing} of "
        f"{counted(contrast.scheduled, 'pair')}.</b></p>"
    yield outcome_matrix(
        _outcomes(contrast.counts), baseline=contrast.baseline, candidate=contrast.candidate
    )
    if len(contrast.tasks) > 1:
        yield _tasks(contrast)
    if contrast.parameters:
        yield (
            "<p class='muted'>By parameter value, with 95 % Newcombe intervals, which count "
            "scenarios, not repeats.</p>"
        )
        yield _parameters(contrast)
    for each in contrast.heat_maps:
        yield heat_map(each)
    yield from _evidence(contrast)
    yield _flips(contrast)


def _evidence(contrast: Contrast) -> Iterable[str]:
    """The way to the answer, in the direction it went."""
    is_worse = contrast.worse.promotes
    verdict = contrast.worse if is_worse else contrast.better
    if verdict.path:
        leader = contrast.baseline if is_worse else contrast.candidate
        yield f"<p class='muted'>Is {escape(leader)} better? The evidence, look by look:</p>"
        yield evidence_path(verdict.path, (), n_max=verdict.n_max, alpha=verdict.alpha)


def _outcomes(counts: PairCounts) -> dict[PairOutcome, int]:
    return {
        PairOutcome.TIED_SUCCESS: counts.both,
        PairOutcome.REGRESSED: counts.baseline_only,
        PairOutcome.IMPROVED: counts.candidate_only,
        PairOutcome.TIED_FAILURE: counts.neither,
        PairOutcome.EXCLUDED: counts.excluded,
    }


def _counts(counts: PairCounts) -> str:
    return f"{counts.candidate_only} / {counts.baseline_only} of {counts.pairs}"


def _tasks(contrast: Contrast) -> str:
    rows = [
        Estimate(
            each.task_id,
            each.difference.value,
            each.difference.low,
            each.difference.high,
            f"{_counts(each.counts)} {each.standing.replace('_', ' ')}",
        )
        for each in contrast.tasks
        if each.difference is not None
    ]
    drawn = estimates(rows, title="difference by task") if rows else ""
    return f"<p class='muted'>By task: fixed / regressed of pairs.</p>{drawn}"


def _parameters(contrast: Contrast) -> str:
    rows = [
        Estimate(
            f"{each.parameter} = {value_words(each.value)}",
            each.counts.difference,
            each.low,
            each.high,
            _counts(each.counts),
        )
        for each in contrast.parameters
        if each.counts.difference is not None and each.low is not None and each.high is not None
    ]
    return estimates(rows, title="difference by parameter value") if rows else ""


def _flips(contrast: Contrast) -> str:
    rows = [
        (
            "fixed" if each.improved else "regressed",
            each.episode_id,
            scenario_words(each.scenario),
            each.replay,
        )
        for each in contrast.flips
    ]
    if not rows:
        return ""
    listed = table(("", "episode", "scenario", "run it again"), rows)
    return f"<details><summary>{counted(len(rows), 'episode')} flipped</summary>{listed}</details>"


def _curves(curves: Sequence[SweepCurve]) -> Iterable[str]:
    groups: dict[tuple[str, str], list[SweepCurve]] = {}
    for curve in curves:
        groups.setdefault((curve.task_id, curve.scenario_set_id), []).append(curve)
    for (task_id, set_id), group in groups.items():
        yield f"<p class='mono'>{escape(task_id)} · {escape(set_id)}</p>{level_curves(group)}"


def _checks(checks: CheckReport) -> str:
    rows = [(each.verdict.value, each.check, each.message) for each in checks.findings]
    evidence = "".join(
        f"<p><b>{escape(each.check)}</b>: {escape(each.message)}</p>"
        f"<pre>{escape(json.dumps(each.evidence, indent=1, ensure_ascii=False))}</pre>"
        for each in checks.findings
        if each.evidence and each.verdict is not CheckVerdict.OK
    )
    more = f"<details><summary>evidence</summary>{evidence}</details>" if evidence else ""
    return table(("verdict", "check", "found"), rows) + more


def _setup(result: PolicyComparison) -> str:
    rows = [
        ("gate", result.gate.to_json()),
        ("ends early", "yes" if result.stopped_early else "no: every episode is run"),
        ("episodes", json.dumps(result.catalog, ensure_ascii=False)),
        *(
            (f"policy {each.name}", json.dumps(each.identity, ensure_ascii=False))
            for each in result.policies
        ),
    ]
    return table(("", ""), rows)

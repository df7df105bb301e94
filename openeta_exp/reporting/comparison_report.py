"""A paired comparison as one page that needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import Gate, NoRegressionGate
from openeta_exp.domain.lineage_story import CONFIRMATION, Comparison
from openeta_exp.domain.pair import Cost, PairObservation, PairOutcome
from openeta_exp.domain.tree_diff import tree_diff
from openeta_exp.domain.verdict import Exclusions, GateVerdict, GuardrailRow
from openeta_exp.reporting.comparison_plots import evidence_path, forest, paired_matrix, points
from openeta_exp.reporting.page import page, section, table


def comparison_report(comparison: Comparison) -> str:
    """The whole page: verdict and reasons first, then the pairs it rests on."""
    planned = comparison.planned
    pairs = () if comparison.ended is None else comparison.ended.pairs
    verdict = comparison.verdict
    title = f"{planned.experiment_id} · generation {planned.generation} · {planned.stage}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='muted'>{escape(_question(comparison))}</p>",
        _answer(comparison),
        *section("Pairs", paired_matrix(pairs) if pairs else ""),
        _changed_sides(pairs),
    ]
    if verdict is not None:
        parts += [
            *section(
                "By task",
                forest(verdict.tasks, verdict.effect, delta_min=_delta_min(planned.gate)),
                note="Boxes are differences of success rates in percentage points with 90 % Tango "
                "intervals; the diamond is all of them together.",
            ),
            *section(
                "Evidence",
                evidence_path(verdict.path, pairs, n_max=verdict.n_max, alpha=verdict.alpha),
            ),
            *section("Guardrails", _guardrails(verdict.guardrails)),
            *section("Cost", _costs(verdict)),
            *section("Pairs that broke or say nothing", _exclusions(verdict.exclusions)),
            *section("Also known", _also_known(verdict)),
        ]
    parts += [
        *section("The change", _change(comparison)),
        *section("How it was set up", _setup(comparison)),
        *section("Every pair", _pair_table(pairs)),
    ]
    return page(title, parts)


def _question(comparison: Comparison) -> str:
    if comparison.planned.stage == CONFIRMATION:
        return "The last tree of the lineage against its first, on fresh episodes: an estimate."
    candidate = comparison.candidate
    if candidate is None:
        return "Two runs of the same tree."
    why = f" ({candidate.rationale})" if candidate.rationale else ""
    return f"Is {candidate.artifact.name} by {candidate.origin}{why} better than the baseline?"


def _answer(comparison: Comparison) -> str:
    # A confirmation decides nothing, whatever its pairs would have decided elsewhere.
    verdict = None if comparison.planned.stage == CONFIRMATION else comparison.verdict
    decision = "" if verdict is None else verdict.decision.value
    sentences = [comparison.sentence]
    reasons = () if verdict is None else verdict.reasons
    items = "".join(
        f"<li><b>{escape(reason.code)}</b>: {escape(reason.message)}</li>" for reason in reasons
    )
    if comparison.promotion is not None:
        sentences.append(
            f"Promoted: {comparison.promotion.name} is part of the next baseline "
            f"{comparison.promotion.to_digest[:12]}."
        )
        sentences.append("The effect was selected by this gate and is optimistic.")
    if comparison.published is not None:
        sentences.append(f"Registry: {comparison.published.sentence}.")
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    return f"<div class='verdict {decision}'>{said}<ul>{items}</ul></div>"


def _delta_min(gate: Gate | None) -> float | None:
    return None if gate is None or isinstance(gate, NoRegressionGate) else gate.delta_min


def _changed_sides(pairs: Sequence[PairObservation]) -> str:
    """The episodes to look at: where the two arms disagree, and what broke."""
    parts = []
    for outcome, words in (
        (PairOutcome.REGRESSED, "Regressed"),
        (PairOutcome.IMPROVED, "Fixed"),
        (PairOutcome.EXCLUDED, "Excluded"),
    ):
        found = [pair for pair in pairs if pair.outcome is outcome]
        if found:
            names = ", ".join(escape(_name(pair)) for pair in found)
            parts.append(f"<p><b>{words} ({len(found)})</b>: <span class='mono'>{names}</span></p>")
    return "".join(parts)


def _name(pair: PairObservation) -> str:
    return pair.candidate.episode_id or pair.baseline.episode_id or str(pair.key)


def _guardrails(rows: Sequence[GuardrailRow]) -> str:
    cells = [
        (
            row.metric,
            _quantity(row, row.baseline),
            _quantity(row, row.candidate),
            _change_words(row, row.change),
            f"{_change_words(row, row.low)} to {_change_words(row, row.high)}",
            "-" if row.p_value is None else f"{row.p_value:.3g}",
            row.policy,
            "BLOCKS" if row.blocks else "warns" if row.warns else "passes",
        )
        for row in rows
    ]
    names = ("metric", "baseline", "candidate", "change", "90 %", "p(harm)", "policy", "")
    return table(names, cells, numbers=(1, 2, 3, 4, 5))


def _quantity(row: GuardrailRow, value: float) -> str:
    return f"{value:,.1f}" if row.policy == "cost" else f"{100 * value:.0f} %"


def _change_words(row: GuardrailRow, value: float) -> str:
    return f"×{value:.2f}" if row.policy == "cost" else points(value)


def _costs(verdict: GateVerdict) -> str:
    def cells(name: str, cost: Cost) -> tuple[str, ...]:
        price = "not known" if cost.price_usd is None else f"${cost.price_usd:,.2f}"
        return name, f"{cost.tokens:,}", f"{cost.tool_calls:,}", f"{cost.wall_s:,.0f}", price

    rows = [
        cells("baseline", verdict.baseline_cost),
        cells("candidate", verdict.candidate_cost),
    ]
    names = ("arm", "tokens", "tool calls", "seconds", "price")
    return table(names, rows, numbers=(1, 2, 3, 4))


def _exclusions(found: Exclusions) -> str:
    broke = found.candidate_breaks + found.baseline_breaks
    if not found.excluded and not broke:
        return ""
    classes = "".join(
        f"<li>{escape(name)}: {count}</li>" for name, count in sorted(found.classes.items())
    )
    said = []
    if found.broken:
        said.append(
            f"{counted(found.broken, 'pair')} ({100 * found.share:.0f} %) broke. Were every crash "
            f"of the candidate a failure: {found.worst_case_wins} fixed, "
            f"{found.worst_case_losses} regressed, p={found.worst_case_p:.3g}."
        )
    if broke:
        said.append(
            f"Attempts broke for the candidate only in {counted(found.candidate_breaks, 'pair')}, "
            f"for the baseline only in {found.baseline_breaks} (p={found.p_value:.3g})."
        )
    if found.solved_at_reset:
        idle = counted(
            found.solved_at_reset,
            "pair was solved at reset and says",
            plural="pairs were solved at reset and say",
        )
        said.append(f"{idle} nothing about either arm.")
    listed = f"<ul>{classes}</ul>" if classes else ""
    return f"<p>{' '.join(said)}</p>{listed}"


def _also_known(verdict: GateVerdict) -> str:
    effect = verdict.effect
    facts = [
        f"95 % interval valid at any stop: {points(effect.anytime_95.low)} to "
        f"{points(effect.anytime_95.high)} points",
        f"posterior probability of any gain {effect.superior_probability:.3f}, of one worth it "
        f"{effect.worthwhile_probability:.3f} (for reading; decides nothing)",
    ]
    if effect.win_ratio is not None:
        high = "∞" if effect.win_ratio_high is None else f"{effect.win_ratio_high:.1f}"
        facts.append(
            f"fixed for each regressed: {effect.win_ratio:.1f} "
            f"(95 % {effect.win_ratio_low:.1f} to {high})"
        )
    if verdict.outlook:
        facts.append(verdict.outlook)
    if verdict.overrun:
        facts.append(f"{counted(verdict.overrun, 'pair')} ended after the stop, not used")
    if verdict.identical_pass_probability is not None:
        facts.append(
            "the rule that no episode may get worse would promote an identical agent here with "
            f"probability {verdict.identical_pass_probability:.2f}"
        )
    if verdict.flakiness is not None:
        known = verdict.flakiness
        facts.append(
            f"two runs of the baseline disagree on {100 * known.discordance:.0f} % of "
            f"{counted(known.pairs, 'episode')}"
        )
    return "<ul>" + "".join(f"<li>{escape(fact)}</li>" for fact in facts) + "</ul>"


def _change(comparison: Comparison) -> str:
    lines = []
    for line in tree_diff(comparison.baseline, comparison.tested).splitlines():
        kind = {"+": "add", "-": "del"}.get(line[:1], "")
        lines.append(f"<span class='{kind}'>{escape(line)}</span>" if kind else escape(line))
    return f"<pre>{chr(10).join(lines)}</pre>" if lines else ""


def _setup(comparison: Comparison) -> str:
    planned = comparison.planned
    gate = "none: no statistical claim" if planned.gate is None else planned.gate.to_json()
    rows = [
        ("comparison", planned.comparison_id),
        ("baseline", f"{planned.baseline_batch_id} · tree {comparison.baseline.content_digest}"),
        ("candidate", f"{planned.candidate_batch_id} · tree {comparison.tested.content_digest}"),
        (
            "schedule, before it ran",
            f"{counted(planned.scheduled_pairs, 'pair')} · {planned.schedule_digest}",
        ),
        ("gate", gate),
    ]
    if planned.terms is not None:
        cap = planned.terms.alpha_cap
        rows.append(("tier", planned.terms.tier.value))
        rows.append(("level left by earlier tests", "its own" if cap is None else f"{cap:.3g}"))
        rows.append(("held-out episodes spent before", str(len(planned.terms.spent_keys))))
    return table(("", ""), rows)


def _pair_table(pairs: Sequence[PairObservation]) -> str:
    rows = [
        (
            str(number),
            _name(pair),
            pair.outcome.value.replace("_", " "),
            pair.baseline.failure_class or pair.baseline.status.value,
            pair.candidate.failure_class or pair.candidate.status.value,
        )
        for number, pair in enumerate(pairs, start=1)
    ]
    if not rows:
        return ""
    names = ("#", "episode", "outcome", "baseline", "candidate")
    listed = table(names, rows, numbers=(0,))
    return (
        f"<details><summary>{counted(len(rows), 'pair')} in schedule "
        f"order</summary>{listed}</details>"
    )

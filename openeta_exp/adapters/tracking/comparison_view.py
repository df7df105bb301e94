"""What a comparison looks like as an MLflow run. Pure; knows MLflow's shapes, not its library."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from openeta_exp.adapters.tracking.run_view import Point, leaves
from openeta_exp.domain.event import ComparisonEnded, ComparisonPlanned
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.lineage_story import CONFIRMATION, Comparison
from openeta_exp.domain.pair import ArmObservation, PairObservation
from openeta_exp.domain.tree_diff import tree_diff
from openeta_exp.domain.verdict import EvidencePoint, GateVerdict

PAIR_TABLE = "pairs.json"
REPORT = "report.html"
DIFF = "change.diff"

_COLUMNS = (
    "pair",
    "episode",
    "outcome",
    "difference",
    "baseline",
    "candidate",
    "task",
    "env_id",
    "seed",
    "repeat",
    "baseline_tokens",
    "candidate_tokens",
    "baseline_tool_calls",
    "candidate_tool_calls",
    "baseline_s",
    "candidate_s",
)


def identity_tags(comparison: Comparison) -> dict[str, str]:
    """The tags by which a comparison's run is found again."""
    return {
        "openeta.comparison_id": comparison.comparison_id,
        # Two output folders may hold comparisons of the same name.
        "openeta.first_planned_s": repr(comparison.first_planned_s),
    }


def run_name(comparison: Comparison) -> str:
    """What was compared and what came of it; what matters first, because the table cuts names."""
    planned = comparison.planned
    if planned.stage == CONFIRMATION:
        return f"{planned.stage}{_result(comparison)}"
    lane = "" if comparison.lane is None else f", {comparison.lane.value.replace('_', ' ')}"
    return f"g{planned.generation} {planned.stage}{_result(comparison)}{lane}"


def _result(comparison: Comparison) -> str:
    verdict = comparison.verdict
    if verdict is None:
        ended = comparison.ended
        if ended is None or ended.canary is None:
            return ""
        return " passed" if ended.canary.passed else " failed"
    points = f"{100 * verdict.effect.difference:+.0f}"
    if comparison.planned.stage == CONFIRMATION:
        return f" {points}"
    return f" {verdict.decision} {points}"


def run_tags(comparison: Comparison) -> dict[str, str]:
    planned, verdict = comparison.planned, comparison.verdict
    tags = identity_tags(comparison) | {
        "kind": "comparison",
        "experiment_id": planned.experiment_id,
        "generation": str(planned.generation),
        "stage": planned.stage,
        "baseline_tree": comparison.baseline.content_digest,
        "candidate_tree": comparison.tested.content_digest,
        "schedule_digest": planned.schedule_digest,
        "mlflow.runName": run_name(comparison),
    }
    if comparison.lane is not None:
        tags["lane"] = comparison.lane.value
    if comparison.candidate is not None:
        tags["candidate"] = comparison.candidate.artifact.name
        tags["candidate_digest"] = comparison.candidate.content_digest
    if comparison.ended is not None and comparison.ended.canary is not None:
        tags["decision"] = "passed" if comparison.ended.canary.passed else "failed"
    if verdict is not None and planned.stage != CONFIRMATION:
        tags["decision"] = verdict.decision.value
        tags["reasons"] = ", ".join(verdict.codes)
    if comparison.promotion is not None:
        tags["promoted"] = comparison.promotion.name
        tags["promoted_tree"] = comparison.promotion.to_digest
    if comparison.published is not None:
        tags["published"] = comparison.published.standing.value
    return tags


def run_params(comparison: Comparison) -> dict[str, str]:
    """What was fixed before the first pair ran."""
    candidate = comparison.candidate
    params = planned_params(comparison.planned)
    if candidate is not None:
        params["candidate"] = candidate.artifact.name
        params["origin"] = candidate.origin
    return params


def planned_params(planned: ComparisonPlanned) -> dict[str, str]:
    """The same as far as any comparison has it."""
    params = {
        "generation": str(planned.generation),
        "stage": planned.stage,
        "scheduled_pairs": str(planned.scheduled_pairs),
    }
    if planned.gate is not None:
        params |= dict(leaves(planned.gate.model_dump(mode="json"), "gate"))
    if planned.terms is not None:
        params["tier"] = planned.terms.tier.value
        if planned.terms.alpha_cap is not None:
            params["alpha_cap"] = repr(planned.terms.alpha_cap)
    return params


def run_points(comparison: Comparison) -> tuple[Point, ...]:
    """The result, and the way to it over pairs."""
    return () if comparison.ended is None else ended_points(comparison.ended)


def ended_points(ended: ComparisonEnded) -> tuple[Point, ...]:
    """The same for any comparison that is over."""
    at_ms = int(ended.at_s * 1000)
    values: dict[str, float] = {"duration_s": ended.duration_s}
    looks: Sequence[EvidencePoint] = ()
    if ended.canary is not None:
        values["canary/pairs"] = ended.canary.pairs
        values["canary/candidate_successes"] = ended.canary.candidate_successes
        values["canary/baseline_successes"] = ended.canary.baseline_successes
    if ended.verdict is not None:
        values |= effect_values(ended.verdict)
        looks = ended.verdict.path
    result = [Point(key, float(value), at_ms, 0) for key, value in values.items()]
    return (*result, *_way(looks, at_ms=at_ms))


def effect_values(verdict: GateVerdict) -> dict[str, float]:
    """The headline of a verdict."""
    effect = verdict.effect
    values: dict[str, float] = {
        "effect/difference": effect.difference,
        "effect/low": effect.tango_95.low,
        "effect/high": effect.tango_95.high,
        "effect/pairs": effect.pairs,
        "effect/fixed": effect.wins,
        "effect/regressed": effect.losses,
        "effect/both": effect.both,
        "effect/neither": effect.neither,
        "effect/excluded": verdict.exclusions.excluded,
        "effect/e_value": verdict.e_value,
        "cost/tokens": verdict.baseline_cost.tokens + verdict.candidate_cost.tokens,
    }
    if verdict.p_value is not None:
        values["effect/p_value"] = verdict.p_value
    if verdict.alpha is not None:
        values["effect/alpha"] = verdict.alpha
    values |= {
        f"ratio/{row.metric}": row.change for row in verdict.guardrails if row.policy == "cost"
    }
    prices = verdict.baseline_cost.price_usd, verdict.candidate_cost.price_usd
    if prices[0] is not None and prices[1] is not None:
        values["cost/price_usd"] = prices[0] + prices[1]
    return values


def _way(looks: Sequence[EvidencePoint], *, at_ms: int) -> Iterator[Point]:
    for look in looks:
        values = {
            "evidence/lead": look.wins - look.losses,
            "evidence/lead_to_continue": look.lead_to_continue,
            "evidence/e_value": look.e_value,
            "evidence/p_value": look.p_value,
            "evidence/conditional_power": look.conditional_power,
        }
        if look.wins_to_promote is not None:
            discordant = look.wins + look.losses
            values["evidence/lead_to_promote"] = 2 * look.wins_to_promote - discordant
        for key, value in values.items():
            if value is not None:
                yield Point(key, float(value), at_ms, look.pairs)


def run_texts(comparison: Comparison) -> dict[str, str]:
    """Artifacts by name, besides the page."""
    texts = {"comparison.json": comparison.model_dump_json(indent=2)}
    if comparison.ended is not None:
        texts[PAIR_TABLE] = json.dumps(pair_table(comparison.ended.pairs))
    diff = tree_diff(comparison.baseline, comparison.tested)
    return texts | ({DIFF: diff} if diff else {})


def pair_table(pairs: Sequence[PairObservation]) -> JsonObject:
    """Rows in schedule order, in the form that MLflow shows page by page."""
    rows: list[JsonValue] = []
    for number, pair in enumerate(pairs, start=1):
        key = pair.key
        cells: JsonObject = {
            "pair": number,
            "episode": pair.candidate.episode_id or pair.baseline.episode_id,
            "outcome": pair.outcome.value,
            "difference": pair.difference if pair.valid else None,
            "task": key.task_id.rpartition(": ")[2],
            "env_id": key.env_id,
            "seed": key.seed,
            "repeat": key.rep,
            **_arm_cells("baseline", pair.baseline),
            **_arm_cells("candidate", pair.candidate),
        }
        rows.append([cells[column] for column in _COLUMNS])
    return {"columns": list(_COLUMNS), "data": rows}


def _arm_cells(side: str, seen: ArmObservation) -> JsonObject:
    return {
        side: seen.failure_class or seen.status.value,
        f"{side}_tokens": seen.cost.tokens,
        f"{side}_tool_calls": seen.cost.tool_calls,
        f"{side}_s": round(seen.cost.wall_s, 3),
    }


def description(comparison: Comparison, links: Sequence[str]) -> str:
    """Markdown for the top of the run's page.

    Args:
        links: Markdown links to what belongs to it.
    """
    lines = [f"**{comparison.sentence}**"]
    if links:
        # Early on: the page folds away what comes after a few lines.
        lines.append(" · ".join(links))
    verdict = comparison.verdict
    if verdict is not None and comparison.planned.stage != CONFIRMATION:
        lines.append("\n".join(f"- `{each.code}`: {each.message}" for each in verdict.reasons))
    if comparison.promotion is not None:
        lines.append(f"Promoted: {comparison.promotion.name} is part of the next baseline.")
    if comparison.published is not None:
        lines.append(f"Registry: {comparison.published.sentence}.")
    return "\n\n".join(lines)


def is_decisive(comparison: Comparison) -> bool:
    """Whether a candidate's way ends here."""
    if comparison.planned.stage != "canary":
        return True
    ended = comparison.ended
    return ended is not None and ended.canary is not None and not ended.canary.passed

"""What a lineage looks like as an MLflow run. Pure; knows MLflow's shapes, not its library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.parse import quote

from pydantic import JsonValue

from openeta_exp.adapters.tracking.run_view import Point
from openeta_exp.domain.counting import counted
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.lineage_story import CONFIRMATION, Comparison, LaneStory, LineageStory
from openeta_exp.statistics.intervals import wilson

LEDGER_TABLE = "ledger.json"
_LEDGER = (
    "generation",
    "lane",
    "candidate",
    "stage",
    "decision",
    "reasons",
    "pairs",
    "fixed",
    "regressed",
    "difference",
    "p_value",
    "alpha",
    "e_value",
    "pairs_so_far",
    "tokens",
    "tokens_so_far",
    "comparison",
)


def identity_tags(story: LineageStory) -> dict[str, str]:
    """The tags by which a lineage's run is found again."""
    return {
        "openeta.lineage": story.experiment_id,
        # Two output folders may hold lineages of the same name.
        "openeta.first_started_s": repr(story.first_started_s),
    }


def run_name(story: LineageStory) -> str:
    return f"lineage {story.experiment_id}"


def run_tags(story: LineageStory) -> dict[str, str]:
    promotions = story.promotions
    return identity_tags(story) | {
        "kind": "lineage",
        "experiment_id": story.experiment_id,
        "first_tree": story.first.content_digest,
        "last_tree": story.tree.content_digest,
        "promotions": str(len(promotions)),
        "promoted": ", ".join(each.name for each in promotions) or "nothing",
        "mlflow.loggedArtifacts": json.dumps([{"path": LEDGER_TABLE, "type": "table"}]),
    }


def run_points(story: LineageStory, *, tokens: int, at_ms: int) -> tuple[Point, ...]:
    """What a lineage is judged by, a step a generation, under the names its batches use."""
    points: list[Point] = []
    for number, generation in story.generations.items():
        for lane in generation.lanes.values():
            points += _effort_points(lane, at_ms=at_ms, step=number)
        result = generation.result
        if result is None or not result.train_episodes:
            continue
        bounds = wilson(result.train_successes, result.train_episodes)
        values = {
            "summary/success_rate": result.train_successes / result.train_episodes,
            "summary/success_rate_low": bounds.low,
            "summary/success_rate_high": bounds.high,
            "lineage/promotions": sum(each.generation <= number for each in story.promotions),
        }
        points += [Point(key, float(value), at_ms, number) for key, value in values.items()]
    for comparison in _judged(story):
        verdict = comparison.verdict
        assert verdict is not None, "only judged comparisons are listed"
        group = "confirmation" if comparison.planned.stage == CONFIRMATION else "effect"
        bounds_95 = verdict.effect.tango_95
        points += [
            Point(f"{group}/difference", verdict.effect.difference, at_ms, _step(comparison)),
            Point(f"{group}/low", bounds_95.low, at_ms, _step(comparison)),
            Point(f"{group}/high", bounds_95.high, at_ms, _step(comparison)),
        ]
    points.append(Point("summary/tokens_total", float(tokens), at_ms, len(story.generations)))
    return tuple(points)


def _effort_points(lane: LaneStory, *, at_ms: int, step: int) -> list[Point]:
    """What an author took; nothing for a proposal that took no model's answer."""
    effort = lane.proposal.effort
    if not effort.tokens.total_tokens:
        return []
    values = {"episodes": effort.episodes, "tokens": effort.tokens.total_tokens}
    points = [
        Point(f"author/{lane.kind}/{key}", float(value), at_ms, step)
        for key, value in values.items()
    ]
    if effort.usd is not None:
        points.append(Point(f"author/{lane.kind}/usd", effort.usd, at_ms, step))
    return points


def _step(comparison: Comparison) -> int:
    return comparison.planned.generation


def run_texts(story: LineageStory) -> dict[str, str]:
    """Artifacts by name."""
    results = [
        each.result.model_dump(mode="json")
        for each in story.generations.values()
        if each.result is not None
    ]
    return {
        LEDGER_TABLE: json.dumps(ledger_table(story)),
        "generations.json": json.dumps(results, indent=2),
    }


def ledger_table(story: LineageStory) -> JsonObject:
    """Every judged comparison in order, with what they have cost up to then."""
    rows: list[JsonValue] = []
    pairs = tokens = 0
    for comparison in _judged(story):
        planned, verdict = comparison.planned, comparison.verdict
        assert verdict is not None, "only judged comparisons are listed"
        effect = verdict.effect
        spent = verdict.baseline_cost.tokens + verdict.candidate_cost.tokens
        pairs, tokens = pairs + effect.pairs, tokens + spent
        decides = planned.stage != CONFIRMATION
        cells: JsonObject = {
            "generation": planned.generation,
            "lane": comparison.lane,
            "candidate": None
            if comparison.candidate is None
            else comparison.candidate.artifact.name,
            "stage": planned.stage,
            "decision": verdict.decision.value if decides else "estimate",
            "reasons": ", ".join(verdict.codes) if decides else "",
            "pairs": effect.pairs,
            "fixed": effect.wins,
            "regressed": effect.losses,
            "difference": round(effect.difference, 4),
            "p_value": verdict.p_value,
            "alpha": verdict.alpha,
            "e_value": verdict.e_value,
            "pairs_so_far": pairs,
            "tokens": spent,
            "tokens_so_far": tokens,
            "comparison": planned.comparison_id,
        }
        rows.append([cells[column] for column in _LEDGER])
    return {"columns": list(_LEDGER), "data": rows}


def _judged(story: LineageStory) -> list[Comparison]:
    return [each for each in story.comparisons.values() if each.verdict is not None]


def description(story: LineageStory, *, links: Sequence[str]) -> str:
    """Markdown for the top of the run's page.

    Args:
        links: Markdown links to what to look at next.
    """
    promoted = ", ".join(f"{each.name} (g{each.generation})" for each in story.promotions)
    lines = [
        f"**{counted(len(story.generations), 'generation')}; promoted: {promoted or 'nothing'}**",
        # Early on: the page folds away what comes after a few lines.
        *([" · ".join(links)] if links else []),
        f"Baseline `{story.first.content_digest[:12]}` → `{story.tree.content_digest[:12]}`",
    ]
    if story.promotions:
        claimed = counted(100 * story.claimed_gain, "point", spec="+.0f")
        lines.append(f"Promotions claim {claimed} in all: an optimistic sum, as each won.")
    if story.confirmation is not None:
        lines.append(f"Confirmation: {story.confirmation.sentence}")
    return "\n\n".join(lines)


def is_over(story: LineageStory, *, generations: int | None, confirms: bool) -> bool:
    """Whether nothing more will come.

    Args:
        generations: How many were asked for; None if that is not known.
        confirms: Whether a lineage that promoted something ends with a confirmation.
    """
    done = [each for each in story.generations.values() if each.result is not None]
    if generations is None or len(done) < generations:
        return False
    if not confirms or story.tree.content_digest == story.first.content_digest:
        return True
    return story.confirmation is not None and story.confirmation.ended is not None


def compare_path(experiment_id: str, run_ids: Sequence[str]) -> str:
    """The part after `#` of the page that shows runs side by side."""
    runs = quote(json.dumps(list(run_ids), separators=(",", ":")), safe="")
    experiments = quote(json.dumps([experiment_id]), safe="")
    return f"/compare-runs?runs={runs}&experiments={experiments}"


def run_path(experiment_id: str, run_id: str) -> str:
    """The part after `#` of a run's page."""
    return f"/experiments/{experiment_id}/runs/{run_id}"


def asked_for(started: BatchStarted | None) -> tuple[int | None, bool]:
    """Generations of the lineage, and whether it ends with a confirmation."""
    asked = None if started is None else started.config.get("lineage")
    if not isinstance(asked, dict):
        return None, False
    generations, pairs = asked.get("generations"), asked.get("confirmation_pairs")
    return generations if isinstance(generations, int) else None, bool(pairs)

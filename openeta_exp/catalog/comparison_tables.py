"""Where policies differ, as the records a report and a result file are made of."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from openeta_exp.catalog.breakdown import Breakdown, Cell, ValueCell
from openeta_exp.catalog.expansion import Expansion
from openeta_exp.catalog.messages import Latency
from openeta_exp.catalog.outcomes import benchmark_evidence
from openeta_exp.catalog.sweeps import sweep_curves
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult, says_something
from openeta_exp.domain.event import Arm
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.policy_comparison import (
    ComparedPolicy,
    FlippedEpisode,
    HeatMapTable,
    LevelRow,
    PairCounts,
    ParameterRow,
    SweepCurve,
)
from openeta_exp.statistics.clustered_intervals import clustered_wilson

_MOST_VALUES = 40
"""A parameter with more is drawn from a range; a row for each value would show single episodes."""
_MOST_MAPS = 6


def parameter_rows(breakdown: Breakdown) -> tuple[ParameterRow, ...]:
    """Every parameter with few values, at each of them.

    One whose every value occurs in one scenario, such as a seed, would show single scenarios only.
    """
    groups: dict[str, list[ValueCell]] = {}
    for each in breakdown.by_parameter():
        groups.setdefault(each.parameter, []).append(each)
    return tuple(
        _row(each)
        for group in groups.values()
        if len(group) <= _MOST_VALUES and any(each.cell.scenarios > 1 for each in group)
        for each in group
    )


def _row(each: ValueCell) -> ParameterRow:
    interval = each.cell.interval()
    return ParameterRow(
        parameter=each.parameter,
        value=each.value,
        counts=_counts(each.cell),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
    )


def heat_maps(breakdown: Breakdown, rows: Sequence[ParameterRow]) -> tuple[HeatMapTable, ...]:
    """The first few pairs of the rows' parameters, each against the other."""
    names = list(dict.fromkeys(row.parameter for row in rows))
    maps = [breakdown.heat_map(*pair) for pair in list(combinations(names, 2))[:_MOST_MAPS]]
    return tuple(
        HeatMapTable(
            rows_parameter=found.rows_parameter,
            columns_parameter=found.columns_parameter,
            rows=found.rows,
            columns=found.columns,
            cells=tuple(
                tuple(None if cell is None else _counts(cell) for cell in row)
                for row in found.cells
            ),
        )
        for found in maps
    )


def flipped_episodes(
    breakdown: Breakdown, *, replay: Callable[[str], str]
) -> tuple[FlippedEpisode, ...]:
    """Regressions first.

    Args:
        replay: The command that runs an episode again, by its id.
    """
    return tuple(
        FlippedEpisode(
            episode_id=flip.row.episode_id,
            task_id=flip.row.task_id,
            scenario=_scenario(flip.row.params, flip.row.level),
            repeat=flip.row.repeat,
            improved=flip.improved,
            replay=replay(flip.row.episode_id),
        )
        for flip in breakdown.flips()
    )


def _scenario(params: JsonObject, level: float | None) -> JsonObject:
    return params if level is None else {**params, "level": level}


def curves(
    expansion: Expansion, policies: Mapping[str, Sequence[EpisodeOutcome]]
) -> tuple[SweepCurve, ...]:
    """Success over the level of a perturbation, for every policy."""
    return tuple(
        SweepCurve(
            policy=name,
            task_id=curve.task_id,
            scenario_set_id=curve.scenario_set_id,
            levels=tuple(
                LevelRow(
                    level=point.level,
                    exposed=point.exposed,
                    successes=point.successes,
                    unexposed=point.unexposed,
                    broken=point.broken,
                    low=point.interval.low,
                    high=point.interval.high,
                )
                for point in curve.points
            ),
        )
        for name, outcomes in policies.items()
        for curve in sweep_curves(expansion, outcomes)
    )


def compared_policy(
    arm: Arm, identity: JsonObject, expansion: Expansion, outcomes: Sequence[EpisodeOutcome]
) -> ComparedPolicy:
    """One arm on all episodes that ended.

    Args:
        outcomes: Of the expansion's episodes, under their labels there.
    """
    rows = expansion.by_episode()
    results = [each for each in outcomes if says_something(each)]
    successes = sum(each.success for each in results)
    scenarios = [rows[str(each.episode_id)].pair_key.unit for each in results]
    interval = clustered_wilson(successes, scenarios)
    latencies = [each for each in map(_latency, results) if each is not None]
    return ComparedPolicy(
        name=arm.label,
        arm_digest=arm.content_digest,
        identity=identity,
        scripted=arm.scripted,
        episodes=len(outcomes),
        successes=successes,
        broken=len(outcomes) - len(results),
        low=interval.low,
        high=interval.high,
        mean_steps=statistics.fmean(each.usage.turns for each in results) if results else None,
        answer_p50_s=_median([each.p50_s for each in latencies]),
        answer_p95_s=_median([each.p95_s for each in latencies]),
    )


def _latency(outcome: EpisodeResult) -> Latency | None:
    evidence = benchmark_evidence(outcome)
    return None if evidence is None else evidence.latency


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _counts(cell: Cell) -> PairCounts:
    return PairCounts(
        both=cell.both,
        baseline_only=cell.baseline_only,
        candidate_only=cell.candidate_only,
        neither=cell.neither,
        excluded=cell.excluded,
    )

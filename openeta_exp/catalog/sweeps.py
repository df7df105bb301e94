"""Success over the level of a perturbation: where does a policy begin to fail?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from openeta_exp.catalog.expansion import Expansion, ScenarioRow
from openeta_exp.catalog.outcomes import benchmark_evidence
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.statistics.clustered_intervals import clustered_wilson
from openeta_exp.statistics.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPoint:
    """One level of one task.

    Attributes:
        exposed: Episodes in which the perturbation took place and changed something; only
            these count. At the neutral level there is nothing to change, and all count.
        unexposed: Episodes that ended before it, or that it did not change.
        broken: Episodes without a verdict.
        interval: Wilson, of the success rate among the exposed; the scenario is the unit.
    """

    level: float
    exposed: int
    successes: int
    unexposed: int
    broken: int
    interval: Interval

    @property
    def rate(self) -> float | None:
        return self.successes / self.exposed if self.exposed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One task under one scenario set, level by level."""

    task_id: str
    scenario_set_id: str
    points: tuple[LevelPoint, ...]


def sweep_curves(
    expansion: Expansion, outcomes: Sequence[EpisodeOutcome], *, confidence: float = 0.95
) -> tuple[Curve, ...]:
    """The curves of one arm; episodes of sets without levels are left out."""
    rows = expansion.by_episode()
    grouped: dict[tuple[str, str], dict[float, list[_Ended]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for outcome in outcomes:
        row = rows.get(str(outcome.episode_id))
        if row is not None and row.level is not None:
            grouped[row.task_id, row.scenario_set_id][row.level].append((row, outcome))
    return tuple(
        Curve(
            task_id=task_id,
            scenario_set_id=set_id,
            points=tuple(
                _point(level, levels[level], confidence=confidence) for level in sorted(levels)
            ),
        )
        for (task_id, set_id), levels in sorted(grouped.items())
    )


_Ended = tuple[ScenarioRow, EpisodeOutcome]


def _point(level: float, ended: Sequence[_Ended], *, confidence: float) -> LevelPoint:
    results = [(row, each) for row, each in ended if isinstance(each, EpisodeResult)]
    exposed = [(row, each) for row, each in results if _exposed(row, each)]
    successes = sum(each.success for _, each in exposed)
    return LevelPoint(
        level=level,
        exposed=len(exposed),
        successes=successes,
        unexposed=len(results) - len(exposed),
        broken=len(ended) - len(results),
        interval=clustered_wilson(
            successes, [row.pair_key.unit for row, _ in exposed], level=confidence
        ),
    )


def _exposed(row: ScenarioRow, outcome: EpisodeResult) -> bool:
    evidence = benchmark_evidence(outcome)
    return evidence is not None and (row.is_neutral or evidence.perturbed_as_planned)

"""Where two arms differ: by parameter value, over two parameters, scenario by scenario."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from openeta_exp.catalog.expansion import Expansion, ScenarioRow
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult, says_something
from openeta_exp.domain.pair import PairKey
from openeta_exp.domain.record import digest
from openeta_exp.statistics.clustered_intervals import clustered_newcombe, effective_size
from openeta_exp.statistics.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Pairs of one group of scenarios: who succeeded.

    Attributes:
        excluded: Pairs without a verdict on at least one side.
        scenarios: That were asked of both arms, however often.
        size: How many independent pairs the pairs are worth, see `effective_size`.
    """

    both: int
    baseline_only: int
    candidate_only: int
    neither: int
    excluded: int
    scenarios: int
    size: float

    @property
    def pairs(self) -> int:
        return self.both + self.baseline_only + self.candidate_only + self.neither

    @property
    def effect(self) -> float | None:
        """Candidate minus baseline success rate."""
        if not self.pairs:
            return None
        return (self.candidate_only - self.baseline_only) / self.pairs

    def interval(self, *, level: float = 0.95) -> Interval | None:
        """Newcombe's, for the effect; the scenario is the unit."""
        if not self.pairs:
            return None
        return clustered_newcombe(
            self.candidate_only,
            self.baseline_only,
            both=self.both,
            neither=self.neither,
            size=self.size,
            level=level,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCell:
    """A parameter at one value."""

    parameter: str
    value: JsonValue
    cell: Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Two parameters against each other; `cells[row][column]`, None where nothing ran."""

    rows_parameter: str
    columns_parameter: str
    rows: tuple[JsonValue, ...]
    columns: tuple[JsonValue, ...]
    cells: tuple[tuple[Cell | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One episode that one arm solved and the other did not."""

    row: ScenarioRow
    improved: bool
    baseline: EpisodeResult
    candidate: EpisodeResult


class Breakdown:
    """Both arms of one comparison, paired by episode before anything is left out."""

    def __init__(
        self,
        expansion: Expansion,
        *,
        baseline: Sequence[EpisodeOutcome],
        candidate: Sequence[EpisodeOutcome],
    ) -> None:
        first = {str(each.episode_id): each for each in baseline}
        second = {str(each.episode_id): each for each in candidate}
        self._pairs = tuple(
            (row, first[str(row.episode_id)], second[str(row.episode_id)])
            for row in expansion.rows
            if str(row.episode_id) in first and str(row.episode_id) in second
        )

    def by_parameter(self) -> tuple[ValueCell, ...]:
        """Every parameter that varies, at each of its values, in a stable order."""
        found = []
        for name in self._parameters():
            groups = self._grouped([name])
            if len(groups) > 1:
                found += [
                    ValueCell(parameter=name, value=values[0], cell=cell) for values, cell in groups
                ]
        return tuple(found)

    def heat_map(self, rows: str, columns: str) -> HeatMap:
        """The effect over two parameters."""
        groups = self._grouped([rows, columns])
        heads = [_distinct([values[at] for values, _ in groups]) for at in (0, 1)]
        cells = {(digest(values[0]), digest(values[1])): cell for values, cell in groups}
        return HeatMap(
            rows_parameter=rows,
            columns_parameter=columns,
            rows=heads[0],
            columns=heads[1],
            cells=tuple(
                tuple(cells.get((digest(row), digest(column))) for column in heads[1])
                for row in heads[0]
            ),
        )

    def flips(self) -> Iterator[Flip]:
        """Episodes that flipped, regressions first."""
        flipped = [
            Flip(row=row, improved=after.success, baseline=before, candidate=after)
            for row, before, after in self._pairs
            if says_something(before) and says_something(after) and before.success != after.success
        ]
        yield from sorted(flipped, key=lambda flip: flip.improved)

    def _parameters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for row, _, _ in self._pairs for name in row.params))

    def _grouped(self, names: Sequence[str]) -> list[tuple[tuple[JsonValue, ...], Cell]]:
        groups: Mapping[tuple[str, ...], list[int]] = defaultdict(list)
        values: dict[tuple[str, ...], tuple[JsonValue, ...]] = {}
        for index, (row, _, _) in enumerate(self._pairs):
            own = tuple(row.params.get(name) for name in names)
            key = tuple(digest(each) for each in own)
            values[key] = own
            groups[key].append(index)
        return [(values[key], self._cell(members)) for key, members in groups.items()]

    def _cell(self, members: Sequence[int]) -> Cell:
        counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
        judged: list[PairKey] = []
        for index in members:
            row, before, after = self._pairs[index]
            if says_something(before) and says_something(after):
                counts[before.success, after.success] += 1
                judged.append(row.pair_key.unit)
        return Cell(
            both=counts[True, True],
            baseline_only=counts[True, False],
            candidate_only=counts[False, True],
            neither=counts[False, False],
            excluded=len(members) - len(judged),
            scenarios=len({self._pairs[index][0].pair_key.unit for index in members}),
            size=effective_size(judged),
        )


def _distinct(values: Sequence[JsonValue]) -> tuple[JsonValue, ...]:
    return tuple({digest(value): value for value in values}.values())

"""How the lineages of a sweep compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.generation import GenerationResult
from openeta_exp.domain.verdict import Effect

_DIGEST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJob:
    """A job of a lineage: `generation` is its number or `all`, `ending` what became of it."""

    generation: str
    ending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedLineage:
    """A lineage as its journal has it after the sweep.

    Attributes:
        jobs: What the sweep asked for.
        generations: That have ended, by this sweep or before.
        gain: Of the last tree over the first, on episodes that no gate has used.
    """

    experiment_id: str
    jobs: tuple[ComparedJob, ...]
    generations: tuple[GenerationResult, ...]
    gain: Effect | None
    tokens: int
    price_usd: float | None


def sweep_view(lineages: Sequence[ComparedLineage]) -> RenderableType:
    """A row for each lineage."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("lineage", overflow="fold")
    table.add_column("generations", overflow="fold")
    table.add_column("train")
    table.add_column("promoted", overflow="fold")
    table.add_column("ends with")
    table.add_column("gain, 95 % CI")
    table.add_column("k tokens", justify="right")
    priced = any(lineage.price_usd is not None for lineage in lineages)
    if priced:
        table.add_column("$", justify="right")
    for lineage in lineages:
        table.add_row(
            Text(lineage.experiment_id),
            ", ".join(f"{job.generation} {job.ending}" for job in lineage.jobs),
            _train(lineage.generations),
            Text(_promoted(lineage.generations)),
            _last(lineage.generations),
            _gain(lineage.gain),
            f"{lineage.tokens / 1000:,.0f}",
            *(
                ["-" if lineage.price_usd is None else f"{lineage.price_usd:,.2f}"]
                if priced
                else []
            ),
        )
    return Group(Text(""), Text(counted(len(lineages), "lineage"), style="bold"), table)


def _train(generations: Sequence[GenerationResult]) -> str:
    won = [f"{each.train_successes}/{each.train_episodes}" for each in generations]
    return " ".join(won) or "-"


def _promoted(generations: Sequence[GenerationResult]) -> str:
    names = [
        f"{promotion.name} in {each.generation}"
        for each in generations
        for promotion in each.promotions
    ]
    return ", ".join(names) or "nothing"


def _last(generations: Sequence[GenerationResult]) -> str:
    return generations[-1].next_baseline_digest[:_DIGEST] if generations else "-"


def _gain(effect: Effect | None) -> str:
    if effect is None:
        return "-"
    bounds = effect.tango_95
    return f"{100 * effect.difference:+.0f} ({100 * bounds.low:+.0f} to {100 * bounds.high:+.0f})"

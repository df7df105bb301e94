"""The table a sweep ends with."""

from __future__ import annotations

import io

import pytest

from openeta_exp.domain.generation import ExperimentResult
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.sweep_view import ComparedJob, ComparedLineage, sweep_view
from tests.generations import lineage

pytestmark = pytest.mark.anyio


def compared(
    experiment_id: str, result: ExperimentResult, *endings: str, price_usd: float | None = None
) -> ComparedLineage:
    return ComparedLineage(
        experiment_id=experiment_id,
        jobs=tuple(
            ComparedJob(generation=str(number), ending=ending)
            for number, ending in enumerate(endings)
        ),
        generations=result.generations,
        gain=result.confirmation,
        tokens=13_723_519,
        price_usd=price_usd,
    )


def printed(*lineages: ComparedLineage) -> str:
    out = io.StringIO()
    Console(out=out).show(sweep_view(lineages))
    return out.getvalue()


async def test_lineages_stand_side_by_side_with_what_they_came_to() -> None:
    better, _ = await lineage(19, 6)
    same, _ = await lineage(6)

    text = printed(
        compared("grasp-approvement-standard", better, "ran", "ran"),
        compared("grasp-approvement-human", same, "known", "failed (3)", "not run"),
    )

    first, second = (line for line in text.splitlines() if "grasp-appr" in line)
    assert text.startswith("\n2 lineages\n")
    assert "0 ran, 1 ran" in first
    assert better.last_digest[:8] in first
    assert better.confirmation is not None
    assert f"{100 * better.confirmation.difference:+.0f} (" in first
    assert "13,724" in first
    assert "0 known, 1 failed" in second
    assert "nothing" in second
    assert "$" not in text


async def test_a_price_is_shown_where_one_is_known() -> None:
    result, _ = await lineage(6)

    text = printed(compared("cheap", result, "ran", price_usd=1.5), compared("free", result, "ran"))

    assert "$" in text
    assert "1.50" in text


def test_a_lineage_that_never_began_has_a_row_of_dashes() -> None:
    nothing = ComparedLineage(
        experiment_id="e",
        jobs=(ComparedJob(generation="all", ending="failed (2)"),),
        generations=(),
        gain=None,
        tokens=0,
        price_usd=None,
    )

    assert "all failed (2)   -       nothing    -" in printed(nothing)

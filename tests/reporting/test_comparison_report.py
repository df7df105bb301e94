"""A comparison as a page for a person who has nothing but a browser."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.event import Event
from openeta_exp.domain.gate import (
    AnytimeGate,
    FixedGate,
    Gate,
    NoRegressionGate,
    SequentialGate,
    Terms,
)
from openeta_exp.domain.lineage_story import Comparison, Lineages
from openeta_exp.reporting.comparison_plots import evidence_path, forest, paired_matrix
from openeta_exp.reporting.comparison_report import comparison_report
from openeta_exp.statistics.gate import judge
from tests.generations import lineage, plan
from tests.statistics.paired_arms import ENDINGS, observed, story

GATES: list[Gate] = [
    SequentialGate(),
    FixedGate(pairs=20),
    AnytimeGate(),
    NoRegressionGate(),
]


def comparisons(events: list[Event]) -> dict[str, Comparison]:
    """By stage and generation, e.g. `held-out 0`."""
    lineages = Lineages()
    for event in events:
        lineages.add(event)
    (told,) = lineages.stories
    return {
        f"{each.planned.stage} {each.planned.generation}": each
        for each in told.comparisons.values()
    }


def pictures(page: str) -> list[ElementTree.Element]:
    """Every SVG of a page; that they parse is part of what is tested."""
    return [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


def words(page: str) -> str:
    return re.sub(r"<[^>]+>", " ", page)


@pytest.fixture
async def told() -> dict[str, Comparison]:
    _, events = await lineage(16, 4)
    return comparisons(events)


@pytest.mark.anyio
async def test_the_verdict_with_every_reason_comes_first(told: dict[str, Comparison]) -> None:
    comparison = told["held-out 0"]
    page = comparison_report(comparison)
    assert comparison.verdict is not None

    read = words(page)
    assert read.index("PROMOTE superior") < read.index("FIXED: only the candidate")
    for reason in comparison.verdict.reasons:
        assert reason.code in read
    assert "grip.r2.16 is part of the next baseline" in read
    assert len(pictures(page)) == 3


@pytest.mark.anyio
async def test_a_page_needs_no_network_and_no_script(told: dict[str, Comparison]) -> None:
    for comparison in told.values():
        page = comparison_report(comparison)
        assert "<script" not in page
        assert set(re.findall(r"https?://[^'\" >]+", page)) <= {"http://www.w3.org/2000/svg"}
        assert not re.findall(r"(?:src|href)=", page)


@pytest.mark.anyio
async def test_a_confirmation_is_an_estimate_and_no_decision(told: dict[str, Comparison]) -> None:
    read = words(comparison_report(told["confirmation 1"]))

    assert "an estimate that no gate selected" in read
    assert "PROMOTE" not in read


@pytest.mark.anyio
async def test_a_canary_and_a_comparison_under_way_have_a_page_too(
    told: dict[str, Comparison],
) -> None:
    assert "passed: candidate solved" in words(comparison_report(told["canary 0"]))
    under_way = told["held-out 0"].model_copy(update={"ended": None, "promotion": None})
    assert "under way" in words(comparison_report(under_way))


@pytest.mark.anyio
async def test_a_page_tells_broken_pairs_from_those_that_were_solved_at_reset(
    told: dict[str, Comparison],
) -> None:
    comparison = told["held-out 0"]
    ended_before = comparison.ended
    assert ended_before is not None

    def page(letters: str) -> str:
        verdict = judge(story(letters), gate=SequentialGate(), terms=Terms())
        ended = ended_before.model_copy(update={"verdict": verdict})
        return words(comparison_report(comparison.model_copy(update={"ended": ended})))

    assert "2 pairs were solved at reset and say nothing about either arm." in page("wRbRw")
    assert "broke, evenly" not in page("wRbRw")
    both = page("wRbXw" * 2)
    assert "2 pairs (25 %) broke" in both
    assert "2 pairs were solved at reset" in both


@pytest.mark.anyio
async def test_the_change_is_shown_as_a_difference_of_texts(told: dict[str, Comparison]) -> None:
    page = comparison_report(told["held-out 0"])

    assert "<span class='del'>-    &quot;close_steps&quot;: 6,</span>" in page
    assert "<span class='add'>+    &quot;close_steps&quot;: 16,</span>" in page


@pytest.mark.anyio
async def test_whatever_an_author_writes_is_text_on_the_page() -> None:
    _, events = await lineage(16, of=plan(generations=1))
    comparison = comparisons(events)["held-out 0"]
    assert comparison.candidate is not None
    hostile = comparison.candidate.model_copy(
        update={"rationale": "</p><script>alert(1)</script>", "origin": "author:<b>"}
    )

    page = comparison_report(comparison.model_copy(update={"candidate": hostile}))

    assert "<script" not in page
    assert "&lt;script&gt;" in page


@given(letters=st.text(alphabet="".join(ENDINGS), max_size=60), gate=st.sampled_from(GATES))
def test_every_outcome_of_every_gate_can_be_drawn(letters: str, gate: Gate) -> None:
    pairs = observed(letters)
    verdict = judge(story(letters), gate=gate, terms=Terms())

    drawn = [
        paired_matrix(pairs),
        forest(verdict.tasks, verdict.effect, delta_min=0.15),
        evidence_path(verdict.path, pairs, n_max=verdict.n_max, alpha=verdict.alpha),
    ]

    for each in drawn:
        assert "nan" not in each
        ElementTree.fromstring(each)


def test_the_matrix_counts_each_pair_once_and_names_what_broke() -> None:
    drawn = words(paired_matrix(observed("wwlbbbnCBRRR")))

    for count in ("2", "1", "3", "1"):
        assert f" {count} " in drawn
    assert "2 more broke in at least one arm and 3 more were solved at reset" in drawn


def test_a_task_with_a_long_name_is_cut_and_shown_whole_on_request() -> None:
    verdict = judge(story("w" * 20), gate=SequentialGate(), terms=Terms())
    name = "openeta/kitchen: " + "put the very heavy frying pan on the stove and turn it on"
    tasks = [task.model_copy(update={"task_id": name}) for task in verdict.tasks]

    drawn = forest(tasks, verdict.effect, delta_min=None)

    assert f"<title>{name}</title>" in drawn
    assert "…" in drawn

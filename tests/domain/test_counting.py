from __future__ import annotations

import pytest

from openeta_exp.domain.counting import counted


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs"), (1_000, "1,000 pairs")],
)
def test_one_thing_is_singular_and_any_other_count_plural(count: int, said: str) -> None:
    assert counted(count, "pair") == said


def test_a_noun_with_a_plural_or_a_verb_of_its_own_is_told_both() -> None:
    said = [counted(each, "episode has", plural="episodes have") for each in (1, 3)]

    assert said == ["1 episode has", "3 episodes have"]
    assert counted(2, "policy", plural="policies") == "2 policies"


@pytest.mark.parametrize(
    ("value", "spec", "said"),
    [
        (1.2, ".0f", "1 point"),
        (-0.9, "+.0f", "-1 point"),
        (1.0, "+.0f", "+1 point"),
        (1.0, ".1f", "1.0 points"),
        (0.5, "g", "0.5 points"),
        (15.000000000000002, "g", "15 points"),
    ],
)
def test_a_number_counts_as_it_is_written(value: float, spec: str, said: str) -> None:
    assert counted(value, "point", spec=spec) == said

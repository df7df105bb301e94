"""Generated scenarios equal the reference vectors, value by value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.catalog.generators import (
    Value,
    latin_hypercube,
    linspace_grid,
    random_sample,
    tidy,
)
from openeta_exp.errors import CatalogError
from openeta_exp.wire.catalog_files import Parameter


def tidied(rows: list[dict[str, Value]]) -> list[dict[str, Value]]:
    return [{name: tidy(value) for name, value in row.items()} for row in rows]


def uniform(low: float, high: float, samples: int) -> Parameter:
    return Parameter(range=(low, high), samples=samples, distribution="uniform")


def test_an_integer_axis_that_divides_evenly_stays_integer() -> None:
    rows = linspace_grid({"n": Parameter(range=(0, 9), steps=10)}, 0)

    assert [row["n"] for row in rows] == list(range(10))
    assert all(type(row["n"]) is int for row in rows)


def test_an_axis_that_does_not_divide_is_float_throughout() -> None:
    rows = linspace_grid({"n": Parameter(range=(0, 1), steps=3)}, 0)

    assert [row["n"] for row in rows] == [0.0, 0.5, 1.0]
    assert all(type(row["n"]) is float for row in rows)


def test_the_documented_grid_runs_its_last_parameter_fastest() -> None:
    rows = tidied(
        linspace_grid(
            {
                "cup_x": Parameter(range=(-0.15, 0.15), steps=6),
                "cup_y": Parameter(range=(0.30, 0.60), steps=6),
            },
            0,
        )
    )

    assert len(rows) == 36
    assert rows[:3] == [
        {"cup_x": -0.15, "cup_y": 0.3},
        {"cup_x": -0.15, "cup_y": 0.36},
        {"cup_x": -0.15, "cup_y": 0.42},
    ]
    assert rows[6] == {"cup_x": -0.09, "cup_y": 0.3}


def test_random_samples_equal_the_reference_vector() -> None:
    rows = random_sample({"x": uniform(0, 1, 4), "c": Parameter(choices=("a", "b", "c"))}, 7)

    assert [tuple(row.values()) for row in tidied(rows)] == [
        (0.323832764833, "a"),
        (0.65093447304, "a"),
        (0.535882004307, "b"),
        (0.0579989247747, "b"),
    ]


def test_a_latin_hypercube_equals_the_reference_vector() -> None:
    rows = tidied(latin_hypercube({"x": uniform(0, 1, 4), "y": uniform(0, 10, 4)}, 42))

    assert [row["x"] for row in rows] == [
        0.561222963451,
        0.284884482131,
        0.775623794043,
        0.185166936167,
    ]
    assert [row["y"] for row in rows] == [
        7.5794566987,
        2.73423809965,
        5.58165223348,
        1.50504682262,
    ]


def test_choices_become_float_together_or_not_at_all() -> None:
    floats = linspace_grid({"f": Parameter(choices=(1, 2.5))}, 0)
    mixed = linspace_grid({"f": Parameter(choices=(1, "two", True, None))}, 0)

    assert [type(row["f"]) for row in floats] == [float, float]
    assert [row["f"] for row in mixed] == [1, "two", True, None]


def test_a_clamped_normal_draw_is_a_float_like_all_others() -> None:
    spec = Parameter(range=(-1, 1), samples=50, distribution="normal", mean=0, std=9)
    rows = random_sample({"x": spec}, 3)

    assert {type(row["x"]) for row in rows} == {float}
    assert {-1.0, 1.0} <= {row["x"] for row in rows}


def test_a_sampler_without_a_random_parameter_says_what_to_do() -> None:
    with pytest.raises(CatalogError, match="linspace_grid"):
        random_sample({"x": Parameter(choices=(1,))}, 0)


def test_samples_must_agree() -> None:
    with pytest.raises(CatalogError, match="must be equal"):
        latin_hypercube({"x": uniform(0, 1, 3), "y": uniform(0, 1, 4)}, 0)


def test_a_grid_that_would_never_end_is_refused() -> None:
    axes = {name: Parameter(range=(0, 1), steps=1000) for name in "abc"}

    with pytest.raises(CatalogError, match="1,000,000,000 scenarios"):
        linspace_grid(axes, 0)


def test_numbers_that_differ_only_by_rounding_are_one_value() -> None:
    assert tidy(0.08 + 2 * 0.02) == tidy(0.12)
    assert str(tidy(-0.0)) == "0.0"


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6), st.integers(1, 40), st.integers(0, 2**31))
def test_every_generated_value_lies_in_its_range(
    low: float, span: float, samples: int, seed: int
) -> None:
    spec = {"x": uniform(low, low + span, samples)}

    for rows in (random_sample(spec, seed), latin_hypercube(spec, seed)):
        assert len(rows) == samples
        for row in rows:
            assert isinstance(row["x"], float)
            assert low <= row["x"] <= low + span


@given(st.integers(1, 30), st.integers(0, 2**31))
def test_a_latin_hypercube_has_one_value_in_every_stratum(samples: int, seed: int) -> None:
    rows = latin_hypercube({"x": uniform(0, samples, samples)}, seed)

    strata = sorted(int(row["x"]) for row in rows if isinstance(row["x"], float))
    assert strata == list(range(samples))

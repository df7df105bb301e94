"""A phrase finds the thing it names and not its neighbours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.embedded.perception.naming import match, referent

KITCHEN = (
    "alphabet soup",
    "tomato sauce",
    "bbq sauce",
    "cream cheese",
    "butter",
    "milk",
    "chocolate pudding",
    "orange juice",
    "basket",
    "akita black bowl",
    "plate",
    "glazed rim porcelain ramekin",
    "wooden cabinet",
    "flat stove",
    "wine bottle",
    "robot",
)


def found(prompt: str) -> list[str]:
    """Names at or above the usual threshold, best first."""
    scored = sorted(((match(prompt, (name,)), name) for name in KITCHEN), reverse=True)
    return [name for score, name in scored if score >= 0.5]


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        ("the alphabet soup", "alphabet soup"),
        ("Alphabet_Soup_1", "alphabet soup"),
        ("soup", "alphabet soup"),
        ("alphabet soup can", "alphabet soup"),
        ("a can of alphabet soup", "alphabet soup"),
        ("BASKET", "basket"),
        ("baskets", "basket"),
        ("tomato sauce", "tomato sauce"),
        ("bbq sauce bottle", "bbq sauce"),
        ("black bowl", "akita black bowl"),
        ("the black bowl between the plate and the ramekin", "akita black bowl"),
        ("the black bowl next to the plate", "akita black bowl"),
        ("cabinet", "wooden cabinet"),
        ("top drawer of the wooden cabinet", "wooden cabinet"),
        ("ramekin", "glazed rim porcelain ramekin"),
        ("stove", "flat stove"),
        ("chocolate pudding", "chocolate pudding"),
    ],
)
def test_the_thing_that_was_meant_comes_first_and_alone(prompt: str, name: str) -> None:
    assert found(prompt) == [name]


def test_a_word_that_several_things_share_finds_all_of_them() -> None:
    assert sorted(found("sauce")) == ["bbq sauce", "tomato sauce"]


@pytest.mark.parametrize("prompt", ["bicycle", "the", "123", "!?", "barbecue"])
def test_a_phrase_that_names_nothing_here_finds_nothing(prompt: str) -> None:
    assert found(prompt) == []


def test_the_referent_ends_where_its_place_begins() -> None:
    assert referent("the black bowl on the wooden cabinet") == ("black", "bowl")
    assert referent("left bowl") == ("left", "bowl")


@given(prompt=st.text(max_size=40), name=st.text(max_size=20))
def test_a_score_is_a_share_and_an_own_name_scores_highest(prompt: str, name: str) -> None:
    assert 0.0 <= match(prompt, (name, "butter")) <= 0.98
    if referent(name) and referent(name) == referent(f"the {name}"):
        assert match(name, (name,)) >= match(prompt, (name,)) or match(prompt, (name,)) <= 0.98

"""What the scripted planner understands of a task sentence."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.embedded.models.planner.task import PickAndPlace, Relation, parse_task

WORDS = st.text(string.ascii_lowercase, min_size=3, max_size=8).map(lambda word: f"x{word}")
NAMES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)
INSIDE = st.sampled_from(["in", "into", "inside", "inside of"])
ON_TOP = st.sampled_from(["on", "onto", "on top of", "to"])
ARTICLE = st.sampled_from(["the ", "a ", "an ", ""])
PICK = st.sampled_from(["pick up", "pick", "grab", "grasp", "take", "lift"])
PLACE = st.sampled_from(["place", "put", "set", "drop", "move", "release"])
JOINT = st.sampled_from([" and", ", and", " and then", ", then", ","])


@given(
    target=NAMES, goal=NAMES, pick=PICK, place=PLACE, joint=JOINT, to=INSIDE | ON_TOP, the=ARTICLE
)
def test_pick_up_x_and_place_it_in_y(
    *, target: str, goal: str, pick: str, place: str, joint: str, to: str, the: str
) -> None:
    task = parse_task(f"{pick} {the}{target}{joint} {place} it {to} {the}{goal}.")

    relation = Relation.INSIDE if to.startswith("in") else Relation.ON_TOP
    expected = None if target == goal else PickAndPlace(target, goal, relation)
    assert task == expected


@given(target=NAMES, goal=NAMES, place=PLACE, to=INSIDE | ON_TOP, the=ARTICLE)
def test_put_x_on_y(*, target: str, goal: str, place: str, to: str, the: str) -> None:
    task = parse_task(f"  {place.upper()} {the}{target}  {to} {the}{goal} ")

    relation = Relation.INSIDE if to.startswith("in") else Relation.ON_TOP
    expected = None if target == goal else PickAndPlace(target, goal, relation)
    assert task == expected


@given(st.text())
def test_any_text_is_read_or_refused_but_never_breaks(sentence: str) -> None:
    task = parse_task(sentence)

    if task is not None:
        assert task.target.strip()
        assert task.goal.strip()
        assert task.target != task.goal


@pytest.mark.parametrize(
    ("sentence", "target", "goal"),
    [
        ("Pick up the can and place it in the basket", "can", "basket"),
        ("pick the salad dressing, put it down on the shelf", "salad dressing", "shelf"),
        (
            "pick up the black bowl between the plate and the ramekin and place it on the plate",
            "",
            "",
        ),
        (
            "pick up the black bowl next to the ramekin and place it on the plate",
            "black bowl next to the ramekin",
            "plate",
        ),
        ("put the wine bottle on top of the cabinet", "wine bottle", "cabinet"),
        ("put the bowl on the stove on the plate", "bowl on the stove", "plate"),
        (
            "put the cream cheese in the top drawer of the cabinet",
            "cream cheese",
            "top drawer of the cabinet",
        ),
        ("please move a milk carton to the tray!", "milk carton", "tray"),
    ],
)
def test_sentences_as_benchmarks_word_them(sentence: str, target: str, goal: str) -> None:
    task = parse_task(sentence)

    assert (task.target, task.goal) == (target, goal) if task is not None else not target


@pytest.mark.parametrize(
    "sentence",
    [
        "",
        "open the middle drawer of the cabinet",
        "turn on the stove",
        "put both the alphabet soup and the tomato sauce in the basket",
        "put the mug and the bowl on the plate",
        "put it in the basket",
        "pick up the can and place it in it",
        "put the mug to the right of the plate",
        "pick up the can",
        "put the can in the can",
        "is the can in the basket?",
        "pick up the can and place it in the basket, then open the drawer",
    ],
)
def test_what_it_cannot_do_is_refused(sentence: str) -> None:
    assert parse_task(sentence) is None

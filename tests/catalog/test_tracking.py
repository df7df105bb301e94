"""A tracked dictionary is a dictionary, and knows who asked it for what."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.catalog.host.tracking import Access, Tracked


def tracked(content: dict[str, Any]) -> tuple[Tracked, Access]:
    access = Access()
    return Tracked(content, access), access


def test_reads_misses_and_defaults_are_told_apart() -> None:
    task, access = tracked({"x": 1, "y": 2, "z": 3})

    assert task["x"] == 1
    assert task.get("y", 0) == 2
    assert task.get("w", 0.5) == 0.5
    assert "v" not in task
    with pytest.raises(KeyError):
        task["u"]

    assert access.read == {"x", "y"}
    assert access.optional == {"y"}
    assert access.missed == {"w", "v", "u"}
    assert access.defaulted == {"w": "0.5"}
    assert not access.bulk


def test_nested_keys_have_dotted_names() -> None:
    observation, access = tracked({"images": {"front": 1}, "states": 2})

    observation["images"].get("wrist")
    observation["images"]["front"]

    assert access.read == {"images", "images.front"}
    assert access.missed == {"images.wrist"}


@pytest.mark.parametrize(
    "use",
    [
        dict,
        list,
        lambda task: {**task},
        lambda task: list(task.items()),
        lambda task: list(task.values()),
        json.dumps,
        lambda task: pickle.loads(pickle.dumps(task)),
        lambda task: f"{task.keys()}",
    ],
)
def test_reading_everything_at_once_is_no_evidence_for_single_keys(
    use: Callable[[Tracked], object],
) -> None:
    task, access = tracked({"x": 1, "y": {"z": 2}})
    use(task)

    assert access.bulk


@pytest.mark.parametrize(
    "write",
    [
        lambda task: task.__setitem__("x", 2),
        lambda task: task.update(x=2),
        lambda task: task.pop("x"),
        lambda task: task.setdefault("new", 1),
        lambda task: task.clear(),
        lambda task: task.popitem(),
        lambda task: task.__delitem__("x"),
        lambda task: task.__ior__({"x": 2}),
    ],
)
def test_every_way_to_write_is_noticed(write: Callable[[Tracked], object]) -> None:
    task, access = tracked({"x": 1})
    write(task)

    assert access.written


@pytest.mark.parametrize("duplicate", [dict.copy, copy.copy, copy.deepcopy, Tracked.copy])
def test_a_copy_may_be_written_to_and_its_reads_count(
    duplicate: Callable[[Tracked], dict[str, Any]],
) -> None:
    task, access = tracked({"x": 1, "y": 2})
    own = duplicate(task)
    own["x"] = 5

    assert task["x"] == 1
    assert access.written == set()
    if isinstance(own, Tracked):
        own["y"]
        assert access.read == {"x", "y"}


@given(st.dictionaries(st.text(), st.integers() | st.dictionaries(st.text(), st.integers())))
def test_it_equals_what_it_was_made_from(content: dict[str, Any]) -> None:
    task, _ = tracked(content)

    assert isinstance(task, dict)
    assert task == content
    assert json.loads(json.dumps(task)) == json.loads(json.dumps(content))
    assert copy.deepcopy(task) == content
    assert len(task) == len(content)

"""Too few held-out episodes: who gets which part of them, and how many would do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from openeta_exp.assembly import iterate as iterating
from openeta_exp.composition import compose_settings
from openeta_exp.errors import SettingsError

TASKS = 3


class StartedError(Exception):
    """A simulator would have been started."""


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def starting(*_: object, **__: object) -> None:
        raise StartedError

    monkeypatch.setattr(iterating, "open_world", starting)


def refusal(root: Path, *, each: int, more: Sequence[str] = ()) -> str | None:
    """What `iterate` says to so many held-out episodes of each task; None if it begins."""
    path = root / f"held-out-{each}.json"
    rows = [
        {
            "episode_id": f"held-{task}-{seed}",
            "env_id": "openeta/tabletop_pick_can_basket-v0",
            "task": f"pick up the can, {task}",
            "seed": 1000 * (task + 1) + seed,
        }
        for task in range(TASKS)
        for seed in range(each)
    ]
    path.write_text(json.dumps(rows), encoding="utf-8")
    settings = compose_settings(
        [
            "+experiment=tabletop_iterate",
            f"output_root={root}",
            "tracking=none",
            f"held_out.path={path}",
            "lineage.generations=2",
            *more,
        ]
    )
    try:
        iterating.iterate(settings)
    except StartedError:
        return None
    except SettingsError as error:
        return " ".join(error.problems)
    raise AssertionError("neither refused nor begun")


@pytest.mark.parametrize(
    "gate", ["gate=sequential", "gate=fixed", "gate=anytime", "gate=no_regression"]
)
def test_too_few_held_out_episodes_are_refused_with_the_number_that_would_do(
    tmp_path: Path, gate: str
) -> None:
    said = refusal(tmp_path, each=4, more=[gate])

    assert said is not None
    assert (
        "gate: the 12 held-out episodes of 3 tasks are divided among 4 comparisons "
        "(2 generations of 2 lanes) and a confirmation (lineage.confirmation_pairs = 20), which "
        "leaves 3 pairs for one comparison; "
    ) in said
    advised = re.search(r"(\d+) held-out episodes would do, (\d+) of each task", said)
    assert advised is not None
    assert int(advised[1]) == TASKS * int(advised[2])
    assert refusal(tmp_path, each=int(advised[2]), more=[gate]) is None
    assert refusal(tmp_path, each=int(advised[2]) - 1, more=[gate]) is not None


def test_a_gate_that_asks_for_more_tasks_is_not_helped_by_more_episodes(tmp_path: Path) -> None:
    said = refusal(tmp_path, each=4, more=["gate=sequential", "gate.min_tasks=5"])

    assert said is not None
    assert "more episodes of these tasks would not do either" in said
    assert "would do," not in said

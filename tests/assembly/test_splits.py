"""Manifests that no comparison could use are refused before a train episode is paid for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from openeta_exp.assembly import checks
from openeta_exp.assembly import iterate as iterating
from openeta_exp.assembly.splits import read_splits
from openeta_exp.composition import compose_settings
from openeta_exp.domain.identity import JsonObject
from openeta_exp.errors import SettingsError
from openeta_exp.settings.command import PreflightSettings
from openeta_exp.settings.experiment import ExperimentSettings

COMMANDS: dict[str, Callable[[ExperimentSettings], int]] = {
    "iterate": iterating.iterate,
    "validate": checks.validate,
    "preflight": partial(checks.preflight, asked=PreflightSettings()),
}


def row(name: str, seed: int, **more: int) -> JsonObject:
    return {
        "episode_id": name,
        "env_id": "openeta/tabletop_pick_can_basket-v0",
        "task": "pick up the can and place it in the basket",
        "seed": seed,
        **more,
    }


def settings(
    folder: Path,
    *overrides: str,
    canary: Sequence[JsonObject] = (row("c", 1),),
    held_out: Sequence[JsonObject] = (row("h", 2),),
) -> ExperimentSettings:
    paths = []
    rows = {"manifest": [row("t", 0)], "canary": canary, "held_out": held_out}
    for name, episodes in rows.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(list(episodes)), encoding="utf-8")
        paths.append(f"{name}.path={path}")
    return compose_settings(
        ["command=iterate", f"output_root={folder}", "tracking=none", *paths, *overrides]
    )


@pytest.fixture(autouse=True)
def no_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    def starting(*_: object, **__: object) -> None:
        raise AssertionError("a simulator would have been started")

    for module in (iterating, checks):
        monkeypatch.setattr(module, "open_world", starting)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_mistake_of_canary_and_held_out_is_told_at_once_by_every_command(
    command: str, tmp_path: Path
) -> None:
    asked = settings(
        tmp_path,
        canary=[
            *(row("c", 1), row("c-short", 1, max_turns=9)),
            *(row("d", 5), row("d-short", 5, max_turns=9)),
        ],
        held_out=[
            *(row("h", 2), row("h-short", 2, max_turns=9), row("h-poor", 2, max_total_tokens=9)),
            *(row("r", 3), row("r-again", 3, repeat=1), row("s", 4), row("s-again", 4)),
        ],
    )

    with pytest.raises(SettingsError) as refused:
        COMMANDS[command](asked)

    same_canary, same_held_out, reruns = refused.value.problems
    assert same_canary.startswith(
        f"canary.path = {tmp_path / 'canary.json'}: rows c and c-short; d and d-short are the same"
    )
    assert same_held_out.startswith(
        f"held_out.path = {tmp_path / 'held_out.json'}: rows h, h-short and h-poor are the same"
    )
    assert "keep one of them, or give the others seeds of their own" in same_held_out
    assert "repeats episodes (2 of them, e.g. rows r and r-again)" in reruns
    assert "gate.mode = sequential" in reruns
    assert "give each row a seed of its own, or use gate=anytime" in reruns


@pytest.mark.parametrize(
    ("gate", "refused"),
    [
        ("sequential", True),
        ("local", True),
        ("fixed", True),
        ("anytime", False),
        ("no_regression", False),
    ],
)
def test_repeats_are_for_gates_that_can_use_them(gate: str, refused: bool, tmp_path: Path) -> None:
    asked = settings(tmp_path, f"gate={gate}", held_out=[row("r", 3), row("r-again", 3, repeat=1)])

    if refused:
        with pytest.raises(SettingsError, match=r"1 of them, e\.g\. rows"):
            read_splits(asked)
    else:
        assert len(read_splits(asked).held_out.episodes) == 2


def test_rows_of_other_seeds_tasks_or_scenarios_are_fine(tmp_path: Path) -> None:
    other_task: JsonObject = {**row("task", 2), "task": "push the can"}
    other_scenario: JsonObject = {**row("scenario", 2), "scenario": {"light": 1}}

    splits = read_splits(
        settings(tmp_path, held_out=[row("h", 2), row("seed", 3), other_task, other_scenario])
    )

    assert len(splits.held_out.episodes) == 4

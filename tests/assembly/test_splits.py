"""Manifests that no comparison could use are refused before a train episode is paid for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import pytest

from openeta_exp.assembly import checks
from openeta_exp.assembly import iterate as iterating
from openeta_exp.assembly import splits as splitting
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


SOUP = "openeta/libero_libero_object_task0-v0"


def row(name: str, seed: int, **more: int | str) -> JsonObject:
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
    train: Sequence[JsonObject] = (row("t", 0),),
    canary: Sequence[JsonObject] = (row("c", 1),),
    held_out: Sequence[JsonObject] = (row("h", 2),),
) -> ExperimentSettings:
    paths = []
    rows = {"manifest": train, "canary": canary, "held_out": held_out}
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


def test_rows_with_seeds_of_their_own_are_fine(tmp_path: Path) -> None:
    other_scenario: JsonObject = {**row("scenario", 5), "scenario": {"light": 1}}

    splits = read_splits(
        settings(
            tmp_path,
            held_out=[
                *(row("h", 2), row("seed", 3), other_scenario),
                *(row("task", 4, task="push the can"), row("box", 2, env_id="openeta/box-v0")),
            ],
        )
    )

    assert len(splits.held_out.episodes) == 5


def refused(asked: ExperimentSettings) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        read_splits(asked)
    return caught.value.problems


def soup(name: str, seed: int, **more: int | str) -> JsonObject:
    return row(name, seed, env_id=SOUP, task="pick up the soup", **more)


@pytest.fixture
def ten_states(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(env_ids: Iterable[str]) -> dict[str, int]:
        return {env_id: 10 for env_id in env_ids if env_id == SOUP}

    monkeypatch.setattr(splitting, "initial_states", known)


@pytest.mark.usefixtures("ten_states")
def test_seeds_of_one_initial_state_in_two_splits_are_one_episode(tmp_path: Path) -> None:
    told = refused(
        settings(
            tmp_path,
            train=[soup("t", 0), soup("u", 1)],
            canary=[soup("c", 12)],
            held_out=[soup("h", 20), soup("i", 21), soup("j", 2), soup("k", 3)],
        )
    )

    assert told == (
        f"held_out.path = {tmp_path / 'held_out.json'}: row h: seed = 20: starts from the same "
        f"state as row t of manifest.path = {tmp_path / 'manifest.json'}, seed = 0, because "
        f"{SOUP} has 10 initial states and takes the seed modulo that (2 such rows); what was "
        "trained on cannot judge: give one of them other seeds",
        f"held_out.path = {tmp_path / 'held_out.json'}: row j: seed = 2: starts from the same "
        f"state as row c of canary.path = {tmp_path / 'canary.json'}, seed = 12, because "
        f"{SOUP} has 10 initial states and takes the seed modulo that; what was trained on cannot "
        "judge: give one of them other seeds",
    )


@pytest.mark.usefixtures("ten_states")
@pytest.mark.parametrize("gate", ["sequential", "anytime", "no_regression"])
def test_seeds_of_one_initial_state_are_no_two_held_out_episodes(gate: str, tmp_path: Path) -> None:
    (told,) = refused(
        settings(
            tmp_path,
            f"gate={gate}",
            held_out=[soup("h", 3), soup("i", 4), soup("j", 13), soup("k", 23), row("l", 13)],
        )
    )

    assert told == (
        f"held_out.path = {tmp_path / 'held_out.json'}: row j: seed = 13: starts from the same "
        f"state as row h, seed = 3, because {SOUP} has 10 initial states and takes the seed modulo "
        "that (2 such rows); keep one seed of each state, and take more tasks for more pairs"
    )


@pytest.mark.usefixtures("ten_states")
def test_any_seed_may_select_an_initial_state_that_no_other_one_does(tmp_path: Path) -> None:
    asked = settings(
        tmp_path,
        "canary=null",
        train=[soup("t", 0)],
        held_out=[soup("h", 51), soup("i", 52), soup("j", 59)],
    )

    splits = read_splits(asked)

    assert len(splits.held_out.episodes) == 3
    assert [spec.seed for spec in splits.canary.episodes] == [3, 4]


@pytest.mark.usefixtures("ten_states")
def test_what_a_seed_means_is_left_to_a_simulator_of_others(tmp_path: Path) -> None:
    asked = settings(
        tmp_path,
        *("simulator=mcp", "simulator.url=http://127.0.0.1:9/mcp", "perception=none"),
        train=[soup("t", 0)],
        held_out=[soup("h", 10), soup("i", 20)],
    )

    assert len(read_splits(asked).held_out.episodes) == 2


@pytest.mark.parametrize("gate", ["sequential", "anytime"])
def test_other_words_make_no_other_held_out_episode(gate: str, tmp_path: Path) -> None:
    (told,) = refused(
        settings(
            tmp_path,
            f"gate={gate}",
            held_out=[
                *(row("h", 2), row("i", 3), row("j", 4, task="put the can into the basket")),
                *(row("h2", 2, task="get the can"), row("i2", 3, task="get the can")),
            ],
        )
    )

    assert told == (
        f"held_out.path = {tmp_path / 'held_out.json'}: row h2: task = 'get the can': is the same "
        "environment and seed as row h (2 such rows); other words make no other episode: keep one "
        "of them, or give it a seed of its own"
    )


def test_a_scenario_that_no_session_is_given_makes_no_other_held_out_episode(
    tmp_path: Path,
) -> None:
    lit: JsonObject = {**row("lit", 2), "scenario": {"light": 1}}

    (told,) = refused(settings(tmp_path, held_out=[row("h", 2), row("i", 3), lit]))

    assert told == (
        f"held_out.path = {tmp_path / 'held_out.json'}: row lit: scenario = {{...}}: is the same "
        "environment and seed as row h; no session is given it: keep one of them, or give it a "
        "seed of its own"
    )


def test_other_words_make_no_other_episode_of_another_split(tmp_path: Path) -> None:
    (told,) = refused(settings(tmp_path, held_out=[row("h", 0, task="get the can"), row("i", 2)]))

    assert told.startswith(
        f"held_out.path = {tmp_path / 'held_out.json'}: row h: seed = 0: is the same environment "
        f"and seed as row t of manifest.path = {tmp_path / 'manifest.json'}; what was trained on"
    )

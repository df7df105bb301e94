"""Rows that policies cannot be compared on are refused before anything is started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from pydantic import JsonValue

from openeta_exp.assembly import execute
from openeta_exp.assembly.catalog_rows import repeats_of
from openeta_exp.assembly.catalog_world import read_expansion
from openeta_exp.catalog.expansion import Expansion
from openeta_exp.cli import guarded
from openeta_exp.composition import compose_settings
from openeta_exp.errors import CatalogError
from tests.catalog_cli.comparing import STRONG, WEAK, toy_catalog

CAN = "openeta/tabletop_pick_can_basket-v0"
BOX = "openeta/tabletop_pick_box_basket-v0"
TASK = "pick up the can and place it in the basket"

Row = Mapping[str, JsonValue]


def row(name: str, env_id: str = CAN, **fields: JsonValue) -> Row:
    return {"episode_id": name, "env_id": env_id, "task": TASK, **fields}


def overrides(folder: Path, rows: Sequence[Row]) -> list[str]:
    (folder / "mine.json").write_text(json.dumps(rows), encoding="utf-8")
    return ["catalog=embedded", f"manifest.path={folder / 'mine.json'}", *WEAK, *STRONG]


def expanded(folder: Path, *rows: Row, command: str = "compare") -> Expansion:
    return read_expansion(compose_settings([f"command={command}", *overrides(folder, rows)]))


def test_seeds_that_select_one_state_are_no_two_scenarios(tmp_path: Path) -> None:
    soup = "openeta/libero_libero_object_task0-v0"

    with pytest.raises(CatalogError) as refused:
        expanded(tmp_path, *(row(f"at-{seed}", soup, seed=seed) for seed in (0, 49, 50)))

    assert refused.value.problems == (
        f"manifest.path = {tmp_path / 'mine.json'}: row at-50: seed = 50: starts from the same "
        f"state as row at-0, seed = 0, because {soup} has 50 initial states and takes the seed "
        "modulo that; give it another seed, or write both with one seed and another repeat",
    )


@pytest.mark.parametrize("command", ["compare", "check"])
def test_rows_that_differ_in_their_limits_only_are_refused_with_all_other_mistakes(
    tmp_path: Path, command: str
) -> None:
    with pytest.raises(CatalogError) as refused:
        expanded(
            tmp_path,
            *(row("a", seed=1), row("b", BOX, seed=1), row("a-short", seed=1, max_turns=50)),
            *(row("c"), row("c-poor", max_total_tokens=9), row("c-quick", timeout_s=9)),
            row("d", seed=2, task="grab the can"),
            command=command,
        )

    alike, words = refused.value.problems
    source = f"manifest.path = {tmp_path / 'mine.json'}: "
    assert alike.startswith(f"{source}rows a and a-short; c, c-poor and c-quick are the same ")
    assert "another seed" in alike
    assert words.startswith(f"{source}row d: task = 'grab the can': row a calls the task of {CAN}")


def test_many_of_them_are_one_sentence_still(tmp_path: Path) -> None:
    rows = [
        row(f"{name}{seed}", seed=seed, max_turns=turns)
        for seed in range(9)
        for name, turns in (("a", 10), ("b", 20))
    ]

    with pytest.raises(CatalogError) as refused:
        expanded(tmp_path, *rows)

    (alike,) = refused.value.problems
    assert "a5 and b5; and others are the same" in alike


def test_scenarios_that_are_not_repeated_equally_often_are_named(tmp_path: Path) -> None:
    often = [row(f"a{repeat}", repeat=repeat) for repeat in range(8)]

    with pytest.raises(CatalogError) as refused:
        expanded(tmp_path, *often, row("b", seed=1))

    (problem,) = refused.value.problems
    assert problem.startswith(
        f"manifest.path = {tmp_path / 'mine.json'}: rows a0, a1, a2, a3, a4, a5 and 2 more are "
        "one scenario, which is run 8 times, and that of b once"
    )
    assert "another seed" in problem


def test_rows_with_another_repeat_are_repeats_and_each_of_them_is_run(tmp_path: Path) -> None:
    expansion = expanded(tmp_path, *(row(f"a{repeat}", repeat=repeat) for repeat in (0, 3)))

    assert repeats_of(expansion.manifest, source="") == 2
    assert len({each.pair_key for each in expansion.rows}) == 2


def test_equal_rows_are_repeats_and_none_of_them_is_dropped(tmp_path: Path) -> None:
    expansion = expanded(tmp_path, row("a"), row("b"))

    assert repeats_of(expansion.manifest, source="") == 2
    assert len({each.pair_key for each in expansion.rows}) == 2


def test_a_selection_without_the_doubled_row_is_compared(tmp_path: Path) -> None:
    rows = [row("a"), row("a-short", max_turns=9), row("b", seed=1)]
    settings = compose_settings(["command=compare", "episodes=[a, b]", *overrides(tmp_path, rows)])

    assert repeats_of(read_expansion(settings).manifest, source="") == 1


def test_a_selection_of_unequally_many_repeats_of_a_catalog_is_refused(tmp_path: Path) -> None:
    catalog = f"catalog.path={toy_catalog(tmp_path)}"
    asked = ["command=compare", catalog, "catalog.repeats=2", *WEAK, *STRONG]
    first, again, other, *_ = read_expansion(compose_settings(asked)).rows

    with pytest.raises(CatalogError) as refused:
        read_expansion(
            compose_settings(
                [*asked, f"episodes=[{first.episode_id},{again.episode_id},{other.episode_id}]"]
            )
        )

    (problem,) = refused.value.problems
    assert problem.startswith(f"{catalog.replace('=', ' = ')}: rows {first.episode_id} and ")


@pytest.mark.parametrize("command", ["compare", "check"])
def test_the_command_ends_with_two_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    asked = [
        f"command={command}",
        f"output_root={tmp_path / 'outputs'}",
        *overrides(tmp_path, [row("a"), row("b", max_turns=9)]),
    ]

    code = guarded(lambda: execute(compose_settings(asked)))

    assert code == 2
    assert "rows a and b are the same environment" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()

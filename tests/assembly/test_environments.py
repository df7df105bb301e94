"""Environments that do not exist are refused before a simulator is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openeta_exp.assembly.environments import read_known
from openeta_exp.composition import compose_settings
from openeta_exp.domain.manifest import Manifest
from openeta_exp.errors import ManifestError

CAN = "openeta/tabletop_pick_can_basket-v0"
SOUP = "openeta/libero_libero_object_task0-v0"


def known(folder: Path, *env_ids: str, simulator: str = "embedded") -> Manifest:
    rows = [{"env_id": env_id, "task": "t"} for env_id in env_ids]
    (folder / "mine.json").write_text(json.dumps(rows), encoding="utf-8")
    asked = [f"manifest.path={folder / 'mine.json'}", f"simulator={simulator}"]
    if simulator == "mcp":
        asked += ["simulator.url=http://127.0.0.1:9/mcp", "perception=none"]
    return read_known(compose_settings(asked))


def test_a_misspelt_environment_is_named_with_the_one_that_was_meant(tmp_path: Path) -> None:
    cam, task = CAN.replace("can", "cam"), SOUP.replace("task0", "task10")

    with pytest.raises(ManifestError) as refused:
        known(tmp_path, CAN, cam, cam, SOUP, task)

    tabletop, libero = refused.value.problems
    source = f"manifest.path = {tmp_path / 'mine.json'}"
    assert tabletop == (
        f"{source}: row episode-001: env_id = '{cam}': the embedded simulator has no such "
        f"environment; did you mean {CAN}?"
    )
    assert libero.startswith(f"{source}: row episode-004: env_id = '{task}': ")


def test_what_another_simulator_has_is_not_known_here(tmp_path: Path) -> None:
    cam = CAN.replace("can", "cam")

    assert len(known(tmp_path, cam, SOUP, simulator="mcp").episodes) == 2

"""`preflight` and `capacity` as a user starts them: what is asked before money is spent."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openeta_exp.wire.batch_result import parse_batch_result
from tests.processes import environment

LIMIT_S = 300
EPISODES = [
    {
        "episode_id": f"can-{seed}",
        "env_id": "openeta/tabletop_pick_can_basket-v0",
        "task": "pick up the can and place it in the basket",
        "seed": seed,
        "max_total_tokens": 1_000_000,
    }
    for seed in range(3)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "episodes.json").write_text(json.dumps(EPISODES), encoding="utf-8")
    return tmp_path


def openeta_exp(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            *(sys.executable, "-m", "openeta_exp", "manifest.path=episodes.json"),
            *("simulator.quality=fast", "tracking=none", *overrides),
        ],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def test_preflight_asks_every_service_and_forecasts_what_is_still_to_run(folder: Path) -> None:
    before = openeta_exp(folder, "command=preflight")
    ran = openeta_exp(folder, "episodes=[can-1]")
    after = openeta_exp(folder, "command=preflight")

    assert (before.returncode, ran.returncode, after.returncode) == (0, 0, 0), after.stderr
    bounded, measured = (json.loads(each.stdout)["estimate"] for each in (before, after))
    assert {check["name"] for check in json.loads(before.stdout)["checks"]} >= {
        "provider",
        "simulator",
        "perception",
    }
    assert (bounded["episodes"], bounded["measured"], bounded["tokens"]) == (3, False, 3_000_000)
    assert (measured["episodes"], measured["measured"], measured["basis_episodes"]) == (2, True, 1)
    assert "1 of 3 episodes of the manifest ended before" in after.stderr
    [written] = folder.glob("outputs/experiments/*/generations/000/train-selected-*/result.json")
    [one] = parse_batch_result(written.read_bytes(), source=str(written)).outcomes
    assert measured["tokens"] == 2 * one.usage.tokens.total_tokens > 0


def test_preflight_of_a_provider_that_is_down_says_so_and_exits_3(folder: Path) -> None:
    down = openeta_exp(folder, "command=preflight", "provider.faults=unavailable")

    assert down.returncode == 3
    assert json.loads(down.stdout)["ok"] is False
    assert "provider" in down.stderr
    assert "Traceback" not in down.stderr


def test_capacity_opens_every_environment_at_once_and_moves_nothing(folder: Path) -> None:
    opened = openeta_exp(folder, "command=capacity")

    assert opened.returncode == 0, opened.stderr
    said = json.loads(opened.stdout)
    assert (said["ok"], said["episode_count"], said["concurrency"]) == (True, 3, 3)
    seconds = said["open_reset_close_s"]
    assert 0 < seconds["median"] <= seconds["max"]
    assert not (folder / "outputs" / "experiments").exists()
    assert opened.stderr.count(": opened, reset and closed in ") == 3
    assert "failed" not in opened.stderr


def test_capacity_names_the_environment_that_does_not_open_and_why(folder: Path) -> None:
    absent = {**EPISODES[0], "episode_id": "absent", "env_id": "openeta/moon-v0"}
    (folder / "episodes.json").write_text(json.dumps([EPISODES[0], absent]), encoding="utf-8")

    opened = openeta_exp(folder, "command=capacity")

    assert opened.returncode == 3, opened.stderr
    assert json.loads(opened.stdout)["failures"] == ["absent"]
    assert "can-0: opened, reset and closed in " in opened.stderr
    (line,) = [each for each in opened.stderr.splitlines() if "absent: " in each]
    assert "could not be opened: " in line
    assert "openeta/moon-v0" in line

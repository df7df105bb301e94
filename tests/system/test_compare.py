"""Two policies on the documented catalog, as a user compares them, mistakes and a kill included."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.event import EpisodeEnded
from openeta_exp.domain.policy_comparison import PolicyComparison
from tests.processes import environment

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "tests" / "fixtures" / "bench_catalog"
LIMIT_S = 300
POLICIES = (
    "policy@a=my_package.policies:ShelfPolicy",
    "policy@b=my_package.policies:ShelfPolicy",
    "b.params={aside_m: 0.02}",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The catalog where the command is started; its episodes end early, as their winners do."""
    shutil.copytree(CATALOG, tmp_path / "my_catalog", ignore=shutil.ignore_patterns("__pycache__"))
    replace(tmp_path / "my_catalog" / "tasks.yaml", "300", "75")
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "openeta_exp", "tracking=none", *arguments],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    process = start(folder, *arguments)
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out + err


def written(folder: Path) -> PolicyComparison:
    path = folder / "outputs" / "experiments" / "experiment" / "comparison" / "comparison.json"
    return PolicyComparison.from_json(path.read_bytes())


def verdicts(folder: Path) -> Counter[tuple[str, str]]:
    """How often each episode of each arm got one."""
    path = folder / "outputs" / "experiments" / "experiment" / "journal.sqlite"
    journal = SqliteJournal(path, read_only=True)
    found = Counter(
        (str(event.outcome.arm_digest), str(event.outcome.episode_id))
        for _, event in journal.events()
        if isinstance(event, EpisodeEnded) and isinstance(event.outcome, EpisodeResult)
    )
    journal.close()
    return found


def test_a_comparison_that_is_killed_goes_on_and_says_which_policy_is_worse(folder: Path) -> None:
    compare = ("command=compare", "catalog.path=my_catalog", *POLICIES, "gate=sequential")
    killed = start(folder, *compare)
    assert killed.stderr is not None
    said = ""
    while "[12/72]" not in said:
        line = killed.stderr.readline()
        assert line, said
        said += line
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=LIMIT_S)
    before = verdicts(folder)

    code, text = run(folder, *compare)

    assert code == 4, text
    assert "b against a: REGRESSED" in text
    result = written(folder)
    (contrast,) = result.contrasts
    assert (result.scenarios, contrast.counts.pairs, contrast.missing) == (36, 36, 0)
    assert contrast.difference is not None
    assert contrast.difference.high < 0
    assert {row.parameter for row in contrast.parameters} == {"cup_x", "cup_y"}
    after = verdicts(folder)
    assert len(after) == 72
    assert set(after.values()) == {1}
    assert set(before) <= set(after)


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        ("scenarios.yaml", "cup_x:", "cube_x:", ("cube_x", "did you mean cup_x?")),
        ("my_package/adapter.py", '{"front": raw', '{"top": raw', ("images.front", "images.top")),
    ],
    ids=["a misspelt parameter", "a renamed camera"],
)
def test_a_meaningless_comparison_is_stopped_by_name_before_its_first_episode(
    folder: Path, file: str, old: str, new: str, names: tuple[str, ...]
) -> None:
    replace(folder / "my_catalog" / file, old, new)

    code, text = run(folder, "command=compare", "catalog.path=my_catalog", *POLICIES)

    assert code == 4, text
    assert written(folder).reason == "invalid"
    assert not verdicts(folder)
    for name in names:
        assert name in text


def test_the_planner_and_a_policy_meet_on_the_same_episodes(folder: Path) -> None:
    row = {
        "episode_id": "can",
        "env_id": "openeta/tabletop_pick_can_basket-v0",
        "task": "pick up the can and place it in the basket",
    }
    (folder / "episodes.json").write_text(json.dumps([row]), encoding="utf-8")

    code, text = run(
        folder,
        *("command=compare", "catalog=embedded", "manifest.path=episodes.json"),
        *("catalog.privileged=true", "catalog.cameras=[]", "simulator.quality=fast"),
        *("policy@llm=planner", "policy@arm=tests.embedded.benchmarks.toy_arm:CanToBasket"),
    )

    assert code == 0, text
    result = written(folder)
    assert [(each.name, each.successes) for each in result.policies] == [("llm", 1), ("arm", 1)]
    assert result.policies[0].scripted
    assert "no trained model is behind llm" in text


def test_mistakes_of_every_file_are_told_at_once_and_nothing_is_started(folder: Path) -> None:
    replace(folder / "my_catalog" / "tasks.yaml", "bench-kitchen", "bench-kitchn")
    replace(folder / "my_catalog" / "scenarios.yaml", "steps: 6", "stps: 6")

    code, text = run(folder, "command=compare", "catalog.path=my_catalog", *POLICIES)

    assert code == 2
    assert "did you mean bench-kitchen?" in text
    assert "did you mean steps?" in text
    assert "Traceback" not in text
    assert not (folder / "outputs" / "experiments").exists()

"""The whole program as a user starts it: simulator, perception and models are real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.event import EpisodeEnded
from openeta_exp.wire.batch_result import parse_batch_result
from tests.processes import environment, mind_ctrl_c

LIMIT_S = 300
EPISODES = [
    {"episode_id": f"{name}-{seed}", "env_id": f"openeta/tabletop_pick_{name}_basket-v0",
     "task": f"pick up the {name} and place it in the basket", "seed": seed}
    for name in ("can", "box")
    for seed in (0, 1)
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "episodes.json").write_text(json.dumps(EPISODES), encoding="utf-8")
    return tmp_path


def start(folder: Path, *overrides: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "openeta_exp",
            "manifest.path=episodes.json",
            "simulator.quality=fast",
            "tracking=none",
            *overrides,
        ],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever starts the tests in the background may have switched Ctrl-C off for all below.
        preexec_fn=mind_ctrl_c,
    )


def run(folder: Path, *overrides: str) -> tuple[int, str]:
    process = start(folder, *overrides)
    out, err = process.communicate(timeout=LIMIT_S)
    return process.returncode, out + err


def wait_for(process: subprocess.Popen[str], text: str) -> None:
    """Read the progress until a line says so; the pipe, not a clock, does the waiting."""
    assert process.stderr is not None
    seen: list[str] = []
    for line in process.stderr:
        seen.append(line)
        if text in line:
            return
    raise AssertionError("".join(seen))


def results(folder: Path, experiment: str = "experiment") -> dict[str, list[EpisodeResult]]:
    journal = SqliteJournal(
        folder / "outputs" / "experiments" / experiment / "journal.sqlite", read_only=True
    )
    found: dict[str, list[EpisodeResult]] = {}
    for _, event in journal.events():
        if isinstance(event, EpisodeEnded) and isinstance(event.outcome, EpisodeResult):
            found.setdefault(event.outcome.episode_id, []).append(event.outcome)
    journal.close()
    return found


def test_episodes_end_alike_whatever_runs_beside_them(folder: Path) -> None:
    """Same outcomes and the same first sight at concurrency 1 and 4; two seeds differ."""
    codes = [
        run(folder, f"concurrency.episodes={n}", f"experiment_id=at-{n}", "concurrency.provider=4")
        for n in (1, 4)
    ]
    alone, together = results(folder, "at-1"), results(folder, "at-4")

    assert [code for code, _ in codes] == [0, 0], codes
    assert alone.keys() == together.keys() == {str(row["episode_id"]) for row in EPISODES}
    for episode_id, (one,) in alone.items():
        (other,) = together[episode_id]
        assert one.success == other.success
        assert one.initial_state_digest == other.initial_state_digest
        assert one.initial_frame_sha256 == other.initial_frame_sha256
    assert alone["can-0"][0].initial_state_digest != alone["can-1"][0].initial_state_digest
    written = folder / "outputs/experiments/at-4/generations/000/train/result.json"
    assert len(parse_batch_result(written.read_bytes(), source=str(written)).outcomes) == len(
        EPISODES
    )


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_run_cut_short_goes_on_where_it_was(folder: Path, signum: signal.Signals) -> None:
    process = start(folder, "concurrency.episodes=2")
    wait_for(process, "[1/4]")
    process.send_signal(signum)
    process.communicate(timeout=LIMIT_S)
    finished = results(folder)

    code, text = run(folder, "concurrency.episodes=2")
    again, said = run(folder, "concurrency.episodes=2")

    assert (again, "every episode has a verdict" in said) == (0, True), said
    assert process.returncode == (-signum if signum is signal.SIGKILL else 130)
    assert 1 <= len(finished) < len(EPISODES)
    assert code == 0, text
    after = results(folder)
    assert {episode_id: len(each) for episode_id, each in after.items()} == {
        str(row["episode_id"]): 1 for row in EPISODES
    }
    for episode_id, each in finished.items():
        assert after[episode_id] == each, "what was finished is kept as it was"


def test_a_selection_leaves_the_result_of_the_whole_as_it_was(folder: Path) -> None:
    train = folder / "outputs/experiments/experiment/generations/000"

    def episodes(phase: str) -> list[str]:
        path = train / phase / "result.json"
        result = parse_batch_result(path.read_bytes(), source=str(path))
        return [str(outcome.episode_id) for outcome in result.outcomes]

    first, _ = run(folder, "episodes=[box-1]")
    whole, _ = run(folder)
    second, said = run(folder, "episodes=[box-1,can-0]")
    again, told = run(folder)

    assert (first, whole, second, again) == (0, 0, 0, 0), said + told
    [one, two] = sorted(
        (each.name for each in train.glob("train-selected-*")), key=lambda name: len(episodes(name))
    )
    assert episodes("train") == [row["episode_id"] for row in EPISODES]
    assert (episodes(one), episodes(two)) == (["box-1"], ["box-1", "can-0"])
    assert "of 2 episodes" in said
    assert "of 4 episodes" in told
    assert {len(each) for each in results(folder).values()} == {1}, "nothing was run twice"


def test_two_runs_do_not_write_into_one_folder(folder: Path) -> None:
    first = start(folder)
    wait_for(first, "4 episodes")
    code, text = run(folder)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=LIMIT_S)

    assert code == 2
    assert str(first.pid) in text
    assert "Traceback" not in text


def test_a_tracking_server_that_is_down_costs_nothing_but_a_warning(folder: Path) -> None:
    code, text = run(
        folder,
        "episodes=[can-0]",
        "tracking=mlflow",
        "tracking.uri=http://127.0.0.1:9",
        "tracking.drain_timeout_s=1",
    )

    assert code == 0, text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("faults", "code", "expected"),
    [
        ("malformed", 0, "planner_format"),
        ("unavailable", 3, "provider"),
        ("garbage", 3, "provider"),
        ("malformed@1,server_error@4", 0, "solved"),
    ],
    ids=["always nonsense", "always down", "always a page", "twice unlucky"],
)
def test_a_model_that_misbehaves_is_told_apart_from_an_agent_that_fails(
    folder: Path, faults: str, code: int, expected: str
) -> None:
    found, text = run(
        folder, "episodes=[can-0]", f'provider.faults="{faults}"', "provider.backoff_s=0"
    )

    assert found == code, text
    assert expected in text
    assert "Traceback" not in text


def test_five_mistakes_are_reported_together_and_nothing_is_started(folder: Path) -> None:
    rows: list[dict[str, object]] = [dict(row) for row in EPISODES]
    rows[0]["seed"] = True
    rows[1]["max_turn"] = 3
    rows[2]["timeout_s"] = -1
    rows[3]["episode_id"] = "can-0"
    rows.append({"env_id": "openeta/tabletop_pick_can_basket-v0"})
    (folder / "episodes.json").write_text(json.dumps(rows), encoding="utf-8")

    code, text = run(folder)

    assert code == 2
    for field in ("seed", "max_turn", "timeout_s", "episode_id", "task"):
        assert field in text
    assert "Traceback" not in text
    assert not (folder / "outputs" / "experiments").exists()

"""The program as a user starts it: in a process of its own, from any directory."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openeta_exp.cli import guarded, run
from openeta_exp.errors import InfrastructureError, ManifestError, SimulatorError

ROOT = Path(__file__).resolve().parents[1]
ROWS = [{"env_id": "openeta/tabletop_pick_can_basket-v0", "task": "pick up the can"}]


def program(*arguments: str, cwd: Path, entry: str = "") -> subprocess.CompletedProcess[str]:
    """Run `python -m openeta_exp`, or a console script's function, in `cwd`."""
    start = ["-c", f"from openeta_exp.seed_cli import {entry} as main; main()"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    environment.pop("OPENETA_LLM_API_BASE", None)
    return subprocess.run(
        [sys.executable, *(start if entry else ["-m", "openeta_exp"]), *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_explains_every_group_and_shows_commands(tmp_path: Path) -> None:
    shown = program("--help", cwd=tmp_path)

    assert shown.returncode == 0
    assert "python -m openeta_exp +experiment=libero_grasp" in shown.stdout
    for group in ("command", "manifest", "approvement", "concurrency", "simulator", "perception"):
        assert f"\n  {group} " in shown.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_typo_gets_one_clear_sentence_and_exit_code_2(tmp_path: Path) -> None:
    ran = program("concurrency.episods=3", cwd=tmp_path)

    assert ran.returncode == 2
    assert ran.stderr == (
        "command line: concurrency.episods = 3: no such field; did you mean episodes?\n"
    )
    assert ran.stdout == ""


def test_an_unknown_option_gets_one_clear_sentence_and_exit_code_2(tmp_path: Path) -> None:
    ran = program("+experiment=libero_graps", cwd=tmp_path)

    assert ran.returncode == 2
    assert ran.stderr == (
        "command line: experiment = 'libero_graps': no such option; did you mean libero_grasp?\n"
    )


def test_a_place_that_cannot_be_written_is_named_in_one_sentence_with_exit_code_3(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()

    ran = program("output_root=file/below", cwd=tmp_path)

    assert ran.returncode == 3
    (line,) = ran.stderr.splitlines()
    assert line.startswith("file/below")
    assert line.endswith("cannot be written: Not a directory; choose another output_root")


@pytest.mark.parametrize("command", ["power", "validate"])
def test_a_command_that_only_reads_leaves_nothing_behind(command: str, tmp_path: Path) -> None:
    ran = program(f"command={command}", cwd=tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["inspect"], "there is no journal; check experiment_id and output_root"),
        (["track"], "there is no journal; check experiment_id and output_root"),
        (["pending"], "output_root = wrong: there is no such folder"),
        (["approve", "interaction_id=i"], "output_root = wrong: there is no such folder"),
        (["deny", "interaction_id=i"], "output_root = wrong: there is no such folder"),
        (["resume", "session_id=s", "answer=a"], "output_root = wrong: there is no such folder"),
        (
            ["rollback", "strategy=s", "reason=r"],
            "wrong/registry: there is no registry that anything",
        ),
        (
            ["rollback", "strategy=s", "reason=r", "registry_root=other"],
            "other: there is no registry that anything",
        ),
    ],
)
def test_a_command_on_what_is_there_refuses_a_place_where_nothing_is_and_creates_nothing(
    command: list[str], said: str, tmp_path: Path
) -> None:
    ran = program(f"command={command[0]}", *command[1:], "output_root=wrong", cwd=tmp_path)

    assert ran.returncode == 2
    (line,) = ran.stderr.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


def test_no_logger_keeps_the_folder_of_a_command_that_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["openeta_exp"])

    run(["command=inspect", "experiment_id=none"])

    logs = [each for each in logging.getLogger().handlers if isinstance(each, logging.FileHandler)]
    assert logs == []


def test_a_manifest_is_read_where_the_command_is_started(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps([{**ROWS[0], "seed": True}]), encoding="utf-8")

    ran = program("manifest.path=m.json", "command=validate", cwd=tmp_path)

    assert ran.returncode == 2
    assert ran.stderr == (
        "m.json: episodes[0] (episode-000): seed = true: must be a whole number, without quotes\n"
    )


def test_validate_only_prints_what_the_original_prints(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"episodes": ROWS * 3}), encoding="utf-8")

    ran = program(
        *("--manifest", "m.json", "--concurrency", "10", "--validate-only"),
        cwd=tmp_path,
        entry="openeta_batch",
    )

    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["valid"] is True
    assert told["episode_count"] == 3


def test_what_unattended_generations_need_is_said_together(tmp_path: Path) -> None:
    ran = program(
        *("--command", "iterate", "--train-manifest", "m.json", "--approvement", "standard"),
        cwd=tmp_path,
        entry="openeta",
    )

    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        "openeta: --validation-manifest: is missing; name a JSON or YAML file of episodes",
        "openeta: --approvement standard: --command iterate runs unattended and needs "
        "reviewed_autonomy; `python -m openeta_exp command=iterate` takes any profile",
    ]


def raising(error: BaseException) -> int:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ManifestError(["one", "two"]), 2, "one\ntwo\n"),
        (SimulatorError("no reply"), 3, "no reply\n"),
        (KeyboardInterrupt(), 130, ""),
        (ExceptionGroup("", [ExceptionGroup("", [InfrastructureError("deep")])]), 3, "deep\n"),
    ],
)
def test_errors_become_exit_codes_without_a_traceback(
    error: BaseException, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(lambda: raising(error)) == code
    assert capsys.readouterr().err == said


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: raising(ZeroDivisionError()))


def test_the_unattended_command_prints_a_report_a_program_can_read(tmp_path: Path) -> None:
    rows = [
        {**ROWS[0], "episode_id": name, "task": "pick up the can and place it in the basket"}
        for name in ("first", "second")
    ]
    (tmp_path / "m.json").write_text(json.dumps(rows), encoding="utf-8")
    line = "--command run --manifest m.json --experiment-id e --episode-id second tracking=none"

    ran = program(*line.split(), cwd=tmp_path, entry="openeta")
    again = program(*line.split(), cwd=tmp_path, entry="openeta")

    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["metrics"]["objective_success_episode_ids"] == ["second"]
    assert Path(told["result_path"]).is_file()
    assert json.loads(again.stdout)["metrics"] == told["metrics"]

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.engine.progress import Progress
from openeta_exp.engine.summary import report_batch
from openeta_exp.errors import ProviderQueueTimeout, SettingsError
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.summary_view import Places
from tests.batches import arm, broke, lost, manifest, provider_metrics, started, won


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def outcome(spec: EpisodeSpec) -> EpisodeOutcome:
    """One broken, every fourth lost, the others won."""
    if spec.seed == 3:
        return broke(spec)
    return lost(spec) if spec.seed % 4 == 0 else won(spec)


def run(console: Console, *, episodes: int, interrupted: bool = False) -> None:
    specs = manifest(episodes)
    progress: Progress = console
    progress.batch_started(started(specs), already_done=0, calls=provider_metrics)
    for spec in specs.episodes:
        progress.episode_started(spec)
        progress.episode_ended(outcome(spec))
    progress.batch_ended(interrupted=interrupted)


def test_without_a_terminal_every_episode_gets_one_line() -> None:
    out, err = io.StringIO(), io.StringIO()
    run(Console(out=out, err=err), episodes=5)

    lines = err.getvalue().splitlines()
    assert out.getvalue() == ""
    assert lines[0].endswith(": 5 episodes, 4 at once")
    assert lines[1].startswith("scripted models: scripted-planner")
    assert lines[2] == (
        "[1/5] episode-0: failed (budget: max_turns) after 9 turns, 4.0 s, 9,500 tokens"
    )
    assert lines[3] == "[2/5] episode-1: solved in 10 turns, 5.0 s, 9,500 tokens"
    assert lines[5].startswith("[4/5] episode-3: failed (provider: provider_unavailable) after")
    assert lines[5].endswith("the endpoint did not answer")
    assert "\x1b" not in err.getvalue()


def test_an_episode_that_broke_and_is_tried_again_is_counted_once() -> None:
    err = io.StringIO()
    specs = manifest(2)
    first, second = specs.episodes
    console = Console(out=io.StringIO(), err=err)
    console.batch_started(started(specs), already_done=0)
    for each in (broke(first), broke(first, attempt=1), won(second)):
        console.episode_ended(each)

    counts = [line.partition(" ")[0] for line in err.getvalue().splitlines()[2:]]
    assert counts == ["[1/2]", "[1/2]", "[2/2]"]


def test_a_pair_that_replaces_one_that_broke_is_counted_on_top() -> None:
    err = io.StringIO()
    specs = manifest(3).episodes
    console = Console(out=io.StringIO(), err=err)
    console.batch_started(started(manifest(3)), already_done=0, episodes=2)
    for each in specs:
        console.episode_ended(won(each))

    counts = [line.partition(" ")[0] for line in err.getvalue().splitlines()[2:]]
    assert counts == ["[1/2]", "[2/2]", "[3/3]"]


def test_a_large_batch_gets_a_line_per_percent_and_per_failure() -> None:
    err = io.StringIO()
    specs = manifest(1000)
    console = Console(out=io.StringIO(), err=err)
    console.batch_started(started(specs), already_done=0)
    for spec in specs.episodes:
        console.episode_ended(lost(spec) if spec.seed == 500 else won(spec))
    console.batch_ended(interrupted=False)

    lines = err.getvalue().splitlines()[2:]
    assert len(lines) == 101
    assert sum("failed" in line for line in lines) == 1


def test_where_losing_is_what_is_measured_only_what_broke_is_told_of_a_large_batch() -> None:
    err = io.StringIO()
    specs = manifest(1000)
    console = Console(out=io.StringIO(), err=err, losses_are_news=False)
    console.batch_started(started(specs), already_done=0)
    for spec in specs.episodes:
        console.episode_ended(broke(spec) if spec.seed == 500 else lost(spec))
    console.batch_ended(interrupted=False)

    lines = err.getvalue().splitlines()[2:]
    assert len(lines) == 101
    assert sum("provider_unavailable" in line for line in lines) == 1


def test_a_terminal_shows_counts_queue_and_failures_by_class() -> None:
    now = iter(range(0, 100_000, 10))
    err = Terminal()
    console = Console(out=io.StringIO(), err=err, now_s=lambda: next(now))
    run(console, episodes=6, interrupted=True)

    shown = err.getvalue()
    assert "6/6" in shown
    assert "solved 3" in shown
    assert "failed 3 (budget 2, provider 1)" in shown
    assert "model calls 0/2 (longest wait 0.2 s)" in shown
    assert "finished episodes are kept" in shown


def test_the_final_table_has_tasks_both_rates_and_places() -> None:
    out = io.StringIO()
    specs = manifest(6)
    start = started(specs)
    report = report_batch(
        start,
        [outcome(spec) for spec in specs.episodes],
        duration_s=83.0,
        interrupted=False,
        provider=provider_metrics(),
    )
    deep = Path("/" + "deep/" * 40 + "result.json")
    Console(out=out, err=io.StringIO()).summary(
        start,
        report.summary,
        places=Places(result=deep, journal=Path("journal.sqlite"), ui_command="scripts/ui"),
    )

    shown = out.getvalue()
    assert "scripted models: scripted-planner" in shown
    assert "pick up object 2" in shown
    assert "budget 2, provider 1" in shown
    assert "solved 3 of 6 episodes: 50 % (19 to 81 %)" in shown
    assert "solved 3 of 5 with a verdict: 60 % (23 to 88 %)" in shown
    assert f"result      {deep}\n" in shown
    assert "look at it  scripts/ui" in shown


def test_a_result_of_real_models_carries_no_scripted_stamp() -> None:
    out = io.StringIO()
    start = started(manifest(1), of=arm(scripted=False))
    report = report_batch(start, [], duration_s=1.0, interrupted=True, provider=None)
    Console(out=out, err=io.StringIO()).summary(start, report.summary, places=None)

    assert "scripted" not in out.getvalue()
    assert "the same command goes on" in out.getvalue()


def test_text_from_outside_is_shown_as_it_is() -> None:
    out = io.StringIO()
    hostile = "[bold]put :smile: into [/the] basket[link=x]"
    spec = EpisodeSpec.model_validate({"episode_id": "[red]x", "env_id": "e", "task": hostile})
    start = started(manifest(1)).model_copy(
        update={"manifest": manifest(1).model_copy(update={"episodes": (spec,)})}
    )
    report = report_batch(start, [], duration_s=1.0, interrupted=False, provider=None)
    console = Console(out=out, err=out)
    console.summary(start, report.summary, places=None)
    console.problems(SettingsError("[blue]a.yaml[/]: x"))

    assert hostile in out.getvalue()
    assert "[blue]a.yaml[/]: x\n" in out.getvalue()


def test_every_problem_is_a_line_of_its_own_and_never_wrapped() -> None:
    err = io.StringIO()
    long = "conf/a.yaml: " + "very " * 60 + "long"
    console = Console(out=io.StringIO(), err=err)
    console.problems(SettingsError([long, "second"]))
    console.broke(ProviderQueueTimeout("no slot in 180 s"))

    assert err.getvalue().splitlines() == [
        long,
        "second",
        "provider_queue_timeout: no slot in 180 s",
    ]


@pytest.mark.parametrize("sink", ["| head -n 1", "> /dev/full"])
def test_output_that_nobody_takes_never_ends_the_run(sink: str) -> None:
    body = textwrap.dedent(
        """
        import sys
        from openeta_exp.reporting.console import Console

        console = Console()
        for index in range(50_000):
            console.text(f"line {index}")
        console.note("went on")
        """
    )
    done = subprocess.run(
        ["bash", "-c", f'set -o pipefail; "$0" -c "$1" {sink}', sys.executable, body],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=60,
        check=False,
    )

    assert done.returncode == 0
    assert done.stderr == "went on\n"

"""Kill -9 at random moments: does the same command end with the same facts?

    scripts/bench interruptions [--kills 30] [--seed 0] [OVERRIDE ...]

Runs a lineage (`+experiment=tabletop_iterate` unless overrides name another) once undisturbed and
once killed again and again, each time at a random moment and started again at once by the same
command. Then every generation's result, every verdict with the pairs it rests on, every training
outcome and every baseline digest must be the same, and no episode may have been run twice. Prints
one JSON line; exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
from pydantic import JsonValue

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.event import ComparisonEnded, EpisodeEnded, Event, GenerationEnded
from openeta_exp.domain.identity import JsonObject

MARK = "OPENETA_EXP_INTERRUPTIONS"
SHORTEST_S, LONGEST_S = 1.0, 20.0
"""Of a life before the kill. The first seconds are imports and the simulator's start."""
_WALL = re.compile(r"wall_s ×[0-9.]+")


def command(overrides: list[str], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "openeta_exp", *overrides, "experiment_id=killed"],
        cwd=folder,
        env={**os.environ, MARK: str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=(folder / "stderr.txt").open("ab"),
    )


def finish(overrides: list[str], folder: Path) -> None:
    code = command(overrides, folder).wait()
    if code != 0:
        sys.exit(f"ended with {code}: {(folder / 'stderr.txt').read_text()[-2000:]}")


def interrupt(overrides: list[str], folder: Path, *, kills: int, rng: random.Random) -> int:
    """Start and kill; returns how many lives ended by the signal before the work was done."""
    for killed in range(kills):
        process = command(overrides, folder)
        try:
            code = process.wait(timeout=rng.uniform(SHORTEST_S, LONGEST_S))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            continue
        if code != 0:
            sys.exit(f"life {killed}: {code}: {(folder / 'stderr.txt').read_text()[-2000:]}")
        return killed
    return kills


def events_of(folder: Path) -> list[Event]:
    path = folder / "outputs" / "experiments" / "killed" / "journal.sqlite"
    journal = SqliteJournal(path, read_only=True)
    try:
        return [event for _, event in journal.events()]
    finally:
        journal.close()


def facts_of(events: list[Event]) -> dict[str, JsonObject]:
    """What must not depend on interruptions, by a name."""
    facts: dict[str, JsonObject] = {}
    for event in events:
        match event:
            case GenerationEnded(result=result):
                facts[f"generation {result.generation}"] = result.model_dump(mode="json")
            case ComparisonEnded():
                facts[event.comparison_id] = event.model_dump(
                    mode="json", exclude={"at_s", "duration_s"}
                )
            case EpisodeEnded(batch_id=batch, outcome=EpisodeResult() as ended):
                if batch.endswith("-train"):
                    facts[f"{batch} {ended.episode_id}"] = ended.model_dump(
                        mode="json",
                        include={"success", "stop_reason", "reward", "initial_state_digest"},
                    )
            case _:
                pass
    return facts


def differences(expected: JsonValue, found: JsonValue, path: str = "") -> Iterator[str]:
    """Where two facts differ, time on the wall aside: no two runs take the same."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if expected.get("metric") == found.get("metric") == "wall_s":
            return
        for key in sorted((expected.keys() | found.keys()) - {"wall_s"}):
            yield from differences(expected.get(key), found.get(key), f"{path}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for place, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif isinstance(expected, str) and isinstance(found, str):
        if _WALL.sub("", expected) != _WALL.sub("", found):
            yield f"{path}: {expected} became {found}"
    elif expected != found:
        yield f"{path}: {str(expected)[:80]} became {str(found)[:80]}"


def run_twice(events: list[Event]) -> list[str]:
    """Episodes with more than one verdict in the same batch."""
    verdicts = Counter(
        (event.batch_id, event.outcome.episode_id, event.outcome.repeat)
        for event in events
        if isinstance(event, EpisodeEnded) and isinstance(event.outcome, EpisodeResult)
    )
    return [" ".join(map(str, key)) for key, count in verdicts.items() if count > 1]


def left_behind(folder: Path) -> list[str]:
    """Processes that outlived their command by more than a few seconds."""
    deadline_s = time.monotonic() + 20
    while True:
        alive = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == str(folder):
                    alive.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        if not alive or time.monotonic() > deadline_s:
            return alive
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("overrides", nargs="*", default=["+experiment=tabletop_iterate"])
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as calm, tempfile.TemporaryDirectory() as rough:
        finish(options.overrides, Path(calm))
        expected = facts_of(events_of(Path(calm)))
        kills = interrupt(options.overrides, Path(rough), kills=options.kills, rng=rng)
        finish(options.overrides, Path(rough))
        events = events_of(Path(rough))
        found = facts_of(events)
        report = {
            "kills": kills,
            "facts": len(expected),
            "different": list(differences(dict(expected), dict(found))),
            "run_twice": run_twice(events),
            "left_behind": left_behind(Path(rough)),
        }
    print(json.dumps(report))
    sys.exit(1 if any(report[each] for each in ("different", "run_twice", "left_behind")) else 0)


if __name__ == "__main__":
    main()

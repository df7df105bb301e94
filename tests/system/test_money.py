"""Caps on spending as a user sets them, by the account of the model server itself."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.episode import EpisodeFailure, EpisodeResult
from openeta_exp.domain.event import ComparisonEnded, EpisodeEnded, Event, GenerationEnded
from openeta_exp.embedded.models.server import create_app
from tests.charging import Charging
from tests.processes import environment
from tests.serving import serving

pytestmark = pytest.mark.anyio

LIMIT_S = 300
CAN = {
    "env_id": "openeta/tabletop_pick_can_basket-v0",
    "task": "pick up the can and place it in the basket",
}
BOX = {
    "env_id": "openeta/tabletop_pick_box_basket-v0",
    "task": "pick up the box and place it in the basket",
}
# One turn and no camera: what is tested is what follows what, not how well it goes.
ITERATE = """command=iterate canary.path=canary.json held_out.path=held_out.json
  gate=no_regression gate.strategy=null simulator.cameras=[] perception=none
  lineage.generations=2 lineage.confirmation_pairs=0"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    short = {"max_turns": 1}
    manifests: dict[str, list[dict[str, object]]] = {
        "episodes": [
            {**each, "episode_id": f"{name}-{seed}", "seed": seed}
            for name, each, seed in (("can", CAN, 0), ("box", BOX, 0), ("can", CAN, 1))
        ],
        "train": [{**CAN, **short, "episode_id": "can-0"}],
        "canary": [{**CAN, **short, "episode_id": "can-1", "seed": 1}],
        "held_out": [
            {**each, **short, "episode_id": name, "seeds": {"first": 2, "last": 40}}
            for name, each in (("can", CAN), ("box", BOX))
        ],
    }
    for name, rows in manifests.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    return tmp_path


async def run(folder: Path, url: str, *overrides: str) -> tuple[int, str]:
    roles = {
        "skill_author": "scripted-skill-author",
        "skill_reviewer": "scripted-skill-reviewer",
        "strategy_author": "scripted-author",
        "strategy_reviewer": "scripted-reviewer",
    }
    done = await to_thread.run_sync(
        partial(
            subprocess.run,
            [
                sys.executable,
                "-m",
                "openeta_exp",
                "tracking=none",
                "simulator.quality=fast",
                "provider=openai",
                f"provider.base_url={url}/v1",
                "provider.model=scripted-planner",
                *(f"+provider.role_models.{role}={model}" for role, model in roles.items()),
                *overrides,
            ],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    )
    return done.returncode, done.stdout + done.stderr


def events(folder: Path, experiment: str, *, root: str = "outputs") -> list[Event]:
    path = folder / root / "experiments" / experiment / "journal.sqlite"
    journal = SqliteJournal(path, read_only=True)
    found = [event for _, event in journal.events()]
    journal.close()
    return found


def outcomes(folder: Path, experiment: str) -> dict[str, tuple[bool, str, int, int]]:
    """How each episode ended, and after how many turns and tokens; each has one result."""
    ended = [e.outcome for e in events(folder, experiment) if isinstance(e, EpisodeEnded)]
    assert not any(isinstance(outcome, EpisodeFailure) for outcome in ended)
    results = [outcome for outcome in ended if isinstance(outcome, EpisodeResult)]
    assert len({result.episode_id for result in results}) == len(results)
    return {
        result.episode_id: (
            result.success,
            result.stop_reason.value,
            result.usage.turns,
            result.usage.tokens.total_tokens,
        )
        for result in results
    }


async def test_a_run_stops_before_the_call_and_a_higher_cap_completes_it(folder: Path) -> None:
    arguments = ["manifest.path=episodes.json", "concurrency.episodes=4", "concurrency.provider=4"]
    server = Charging(create_app())
    async with serving(server) as url:
        code, said = await run(folder, url, *arguments, "experiment_id=free")
        assert code == 0, said
        whole = server.tokens
        cap = whole // 2
        stopped, why = await run(
            folder, url, *arguments, "experiment_id=capped", f"money.experiment_tokens={cap}"
        )
        first = server.tokens - whole
        before = outcomes(folder, "capped")
        again, said_again = await run(
            folder, url, *arguments, "experiment_id=capped", f"money.experiment_tokens={cap}"
        )
        second = server.tokens - whole
        higher, rest = await run(
            folder, url, *arguments, "experiment_id=capped", f"money.experiment_tokens={3 * whole}"
        )

    assert (stopped, again, higher) == (3, 3, 0), why + said_again + rest
    assert cap / 2 < first <= cap
    assert second <= cap, "what was spent before counts"
    assert why.count(f"money.experiment_tokens = {cap:,}: stopped before a call of planner") == 1
    assert "Traceback" not in why + said_again
    assert len(before) < 3
    assert outcomes(folder, "capped") == outcomes(folder, "free")


async def test_a_lineage_stopped_in_the_middle_comes_to_the_same_in_the_end(folder: Path) -> None:
    arguments = [*ITERATE.split(), "manifest.path=train.json", "concurrency.episodes=2"]
    server = Charging(create_app())
    async with serving(server) as url:
        code, said = await run(folder, url, *arguments, "experiment_id=lineage", "output_root=free")
        assert code == 0, said
        whole = server.tokens
        stops = []
        for part in (0.1, 0.6):
            cap = round(part * whole)
            stopped, why = await run(
                folder,
                url,
                *arguments,
                "experiment_id=lineage",
                f"money.experiment_tokens={cap}",
            )
            stops.append((stopped, "raise money.experiment_tokens" in why))
            assert server.tokens - whole <= cap
        finished, rest = await run(folder, url, *arguments, "experiment_id=lineage")

    assert stops == [(0, True)] * 2
    assert finished == 0, rest
    assert f"{server.tokens - whole:,} tokens" in rest
    assert story(folder, "outputs") == story(folder, "free")


def story(folder: Path, root: str) -> list[object]:
    """What was compared on which pairs, and what the generations came to."""
    found: list[object] = []
    for event in events(folder, "lineage", root=root):
        match event:
            case ComparisonEnded(verdict=verdict):
                codes = None if verdict is None else (verdict.codes, verdict.effect)
                found.append((event.comparison_id, codes, [pair.key for pair in event.pairs]))
            case GenerationEnded(result=result):
                found.append((result.generation, result.next_baseline_digest))
            case _:
                pass
    return found

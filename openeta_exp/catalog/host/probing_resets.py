"""Resets an adapter on purpose-built scenarios and says what differed: evidence, no opinion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openeta_exp.catalog.host.adapter import Adapter, merged
from openeta_exp.catalog.host.blame import Blame, BrokenEpisodeError
from openeta_exp.catalog.host.episode import flat_keys, seed_globals
from openeta_exp.catalog.host.recording import Recorder
from openeta_exp.catalog.host.tracking import Access, Tracked
from openeta_exp.catalog.host.values import Json, digest_of, leaves

Leaves = dict[str, object]


@dataclass
class Start:
    """One reset."""

    access: Access
    given: dict[str, Any]
    observation: dict[str, Any] = field(default_factory=dict)
    at_reset: Leaves = field(default_factory=dict)
    after_steps: Leaves = field(default_factory=dict)
    done_at_reset: bool | None = None
    success_at_reset: bool | None = None
    failure: BrokenEpisodeError | None = None

    def report(self) -> dict[str, Json]:
        return {
            "digest": digest_of(self.at_reset),
            "keys": sorted(flat_keys(self.observation)),
            "access": self.access.report(),
            "done_at_reset": self.done_at_reset,
            "success_at_reset": self.success_at_reset,
            "error": None if self.failure is None else str(self.failure),
        }


def probe_resets(
    adapter: Adapter,
    *,
    instruction: str,
    provider_ref: Mapping[str, Any],
    cases: Mapping[str, Mapping[str, Any]],
    pairs: Sequence[Sequence[str]],
    settle_steps: int,
    action_dim: int | None,
) -> dict[str, Json]:
    """Reset every case in order, then compare the named pairs.

    Args:
        cases: By name: `scenario`, `episode_idx` and `seed`.
        settle_steps: Fixed actions after the reset, so that hidden parameters get to act.
        action_dim: Length of an action; None takes no steps.
    """
    starts: dict[str, Start] = {}
    for name, case in cases.items():
        starts[name] = _start(
            adapter,
            adapter.task(instruction, provider_ref),
            case,
            settle_steps=settle_steps,
            action_dim=action_dim,
        )
    compared: list[Json] = [
        {
            "pair": list(pair),
            "at_reset": difference(starts[pair[0]].at_reset, starts[pair[1]].at_reset),
            "after_steps": difference(starts[pair[0]].after_steps, starts[pair[1]].after_steps),
        }
        for pair in pairs
    ]
    return {
        "cases": {name: start.report() for name, start in starts.items()},
        "compared": compared,
    }


def _start(
    adapter: Adapter,
    base: Mapping[str, Any],
    case: Mapping[str, Any],
    *,
    settle_steps: int,
    action_dim: int | None,
) -> Start:
    access = Access()
    given = merged(base, case["scenario"], episode_idx=case["episode_idx"])
    start = Start(access, given)
    driver, blame = adapter.driver, Blame("reset")
    try:
        with blame:
            seed_globals(case["seed"])
            recorder = Recorder(session_id="check", episode_id="check", keep_video=False)
            driver.start(Tracked(given, access), recorder)
            blame.phase = "make_obs"
            start.observation = driver.observe()
            start.at_reset = _frozen(driver.raw())
    except BrokenEpisodeError as error:
        start.failure = error
        return start
    start.done_at_reset, start.success_at_reset = _verdict_at_reset(adapter)
    if action_dim is not None:
        start.after_steps = _after_steps(adapter, settle_steps, action_dim)
    return start


def _verdict_at_reset(adapter: Adapter) -> tuple[bool | None, bool | None]:
    """What the adapter says before anything was done; None where it cannot say yet."""
    done: bool | None = None
    success: bool | None = None
    try:
        with Blame("check_done"):
            done = adapter.driver.done()
        with Blame("get_step_result"):
            success = bool(adapter.driver.result().get("success"))
    except BrokenEpisodeError:
        # Adapters may look into `info`, which is empty before the first step.
        return done, success
    return done, success


def _after_steps(adapter: Adapter, steps: int, action_dim: int) -> Leaves:
    wiggle = np.random.default_rng(0).uniform(-0.5, 0.5, size=(steps, action_dim))
    try:
        with Blame("step"):
            for action in wiggle.astype(np.float32):
                adapter.driver.act({"actions": action})
                if adapter.driver.done():
                    break
            adapter.driver.observe()
            return _frozen(adapter.driver.raw())
    except BrokenEpisodeError:
        return {}


def _frozen(raw: object) -> Leaves:
    """Copies, because simulators hand out views of memory they go on writing to."""
    return {
        path: leaf.copy() if isinstance(leaf, np.ndarray) else leaf for path, leaf in leaves(raw)
    }


def difference(before: Leaves, after: Leaves) -> dict[str, Json]:
    """Where two flattened values differ, and by how much at most."""
    largest, where, differing = 0.0, "", list[str]()
    for path in sorted(set(before) | set(after)):
        distance = _distance(before.get(path), after.get(path))
        if distance > 0:
            differing.append(path)
        if distance > largest:
            largest, where = distance, path
    return {
        "known": bool(before) and bool(after),
        "largest": min(largest, 1e308),
        "where": where,
        "paths": differing[:20],
    }


def _distance(before: object, after: object) -> float:
    """Largest absolute difference; a huge number where the values cannot be subtracted."""
    if type(before) is type(after) and isinstance(before, str | bytes | None):
        return 0.0 if before == after else 1e308
    first, second = np.asarray(before), np.asarray(after)
    if first.shape != second.shape or first.dtype.kind not in "biuf":
        return 0.0 if first.shape == second.shape and np.array_equal(first, second) else 1e308
    if first.size == 0:
        return 0.0
    gap = np.abs(first.astype(np.float64) - second.astype(np.float64))
    return float(np.nan_to_num(gap, nan=0.0).max())

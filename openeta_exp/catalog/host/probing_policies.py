"""Asks policies the same things in different ways and says what changed: evidence, no opinion."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openeta_exp.catalog.host.adapter import Adapter, merged
from openeta_exp.catalog.host.blame import Blame, BrokenEpisodeError
from openeta_exp.catalog.host.episode import (
    Policy,
    checked_action,
    flat_keys,
    reported_success,
    wire_task,
)
from openeta_exp.catalog.host.episode import seed_globals as seed_generators
from openeta_exp.catalog.host.recording import Recorder
from openeta_exp.catalog.host.tracking import Access, Tracked
from openeta_exp.catalog.host.values import Json, is_image, leaves

_MEMORY_BYTES = 192 * 1024 * 1024
_REPEATS = 3


@dataclass
class Rollout:
    """One episode with a policy, remembered."""

    task: dict[str, Any]
    observations: list[dict[str, Any]] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    complete: bool = False
    access: Access = field(default_factory=Access)
    success: bool | None = None
    failure: BrokenEpisodeError | None = None


def probe_policies(
    adapter: Adapter,
    policies: Mapping[str, Policy],
    *,
    instruction: str,
    provider_ref: Mapping[str, Any],
    scenarios: Sequence[Mapping[str, Any]],
    max_steps: int,
) -> dict[str, Json]:
    """Roll every policy out once, then ask it about observations it did not see that way."""
    base = adapter.task(instruction, provider_ref)
    first = merged(base, scenarios[0], episode_idx=0)
    rollouts = {
        name: _roll_out(adapter, policy, first, max_steps=max_steps)
        for name, policy in policies.items()
    }
    reference = next((each for each in rollouts.values() if each.observations), None)
    starts = [_first_observation(adapter, merged(base, each, episode_idx=0)) for each in scenarios]
    asked = [each for each in starts if each is not None]
    if reference is not None:
        asked.append((reference.task, reference.observations[len(reference.observations) // 2]))
    reports: dict[str, Json] = {}
    for name, policy in policies.items():
        report = _rollout_report(rollouts[name])
        report["sensitivity"] = _sensitivity(policy, asked)
        reports[name] = report
    return {
        "policies": reports,
        "fingerprints": _fingerprints(policies, reference),
    }


def _roll_out(adapter: Adapter, policy: Policy, task: dict[str, Any], *, max_steps: int) -> Rollout:
    rollout = Rollout(task)
    driver, blame, kept = adapter.driver, Blame("reset"), 0
    tracked = getattr(policy, "in_process", False)
    try:
        with blame:
            seed_generators(0)
            recorder = Recorder(session_id="check", episode_id="check", keep_video=False)
            driver.start(dict(task), recorder)
            blame.phase = "make_obs"
            observation = driver.observe()
            blame.phase = "start_episode"
            policy.start_episode(wire_task(task))
            for _ in range(max_steps):
                kept += _size(observation)
                if kept < _MEMORY_BYTES:
                    rollout.observations.append(copy.deepcopy(observation))
                blame.phase = "act"
                shown = Tracked(observation, rollout.access) if tracked else observation
                action = checked_action(policy.act(shown), _dim(rollout))
                rollout.actions.append(action["actions"])
                blame.phase = "step"
                driver.act(action)
                blame.phase = "check_done"
                if driver.done():
                    break
                blame.phase = "make_obs"
                observation = driver.observe()
            rollout.complete = kept < _MEMORY_BYTES
            blame.phase = "get_step_result"
            rollout.success = reported_success(driver.result())
    except BrokenEpisodeError as error:
        rollout.failure = error
    _end(policy)
    return rollout


def _dim(rollout: Rollout) -> int | None:
    return rollout.actions[0].size if rollout.actions else None


def _first_observation(
    adapter: Adapter, task: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    try:
        with Blame("reset"):
            seed_generators(0)
            recorder = Recorder(session_id="check", episode_id="check", keep_video=False)
            adapter.driver.start(dict(task), recorder)
            return task, copy.deepcopy(adapter.driver.observe())
    except BrokenEpisodeError:
        return None


def _rollout_report(rollout: Rollout) -> dict[str, Json]:
    report: dict[str, Json] = {
        "error": None if rollout.failure is None else str(rollout.failure),
        "error_class": None if rollout.failure is None else rollout.failure.failure_class,
        "access": rollout.access.report(),
        "steps": len(rollout.actions),
        "success": rollout.success,
        "sent": sorted(flat_keys(rollout.observations[0])) if rollout.observations else [],
    }
    if rollout.actions:
        actions = np.stack(rollout.actions)
        report["action_dim"] = int(actions.shape[1])
        report["constant"] = bool((actions == actions[0]).all()) and len(actions) > 1
        bound = float(np.abs(actions).max())
        report["saturated"] = [
            float(each) for each in (np.abs(actions) >= 0.999 * max(bound, 1.0)).mean(axis=0)
        ]
    return report


def _sensitivity(
    policy: Policy, asked: Sequence[tuple[dict[str, Any], dict[str, Any]]]
) -> dict[str, Json]:
    """By observation key: the largest change of the first action when only that key changes."""
    floor, changes, errors = 0.0, dict[str, float](), dict[str, str]()
    for task, observation in asked:
        answers = [_ask(policy, task, observation) for _ in range(_REPEATS)]
        usable = [each for each in answers if isinstance(each, np.ndarray)]
        if len(usable) < _REPEATS:
            errors["unchanged"] = str(next(each for each in answers if isinstance(each, str)))
            continue
        floor = max(floor, *(float(np.abs(each - usable[0]).max()) for each in usable))
        for path in flat_keys(observation):
            for variant in _variants(observation, path):
                answer = _ask(policy, task, variant)
                if isinstance(answer, str):
                    errors[path] = answer
                    changes[path] = max(changes.get(path, 0.0), 1e308)
                elif answer.shape == usable[0].shape:
                    change = float(np.abs(answer - usable[0]).max())
                    changes[path] = max(changes.get(path, 0.0), change)
    images = sorted(
        {
            path
            for _, observation in asked
            for path, leaf in leaves(observation)
            if isinstance(leaf, np.ndarray) and is_image(leaf)
        }
    )
    return {"noise": floor, "change": {**changes}, "errors": {**errors}, "images": [*images]}


def _ask(policy: Policy, task: dict[str, Any], observation: dict[str, Any]) -> np.ndarray | str:
    """The first action of a fresh episode, or what went wrong."""
    try:
        with Blame("act"):
            seed_generators(0)
            policy.start_episode(wire_task(task))
            answer: np.ndarray = checked_action(policy.act(copy.deepcopy(observation)), None)[
                "actions"
            ]
    except BrokenEpisodeError as error:
        _end(policy)
        return str(error)
    _end(policy)
    return answer


def _variants(observation: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """The observation with one value emptied, and with it scrambled."""
    variants = []
    for change in (_emptied, _scrambled):
        variant = copy.deepcopy(observation)
        *parents, leaf = path.split(".")
        holder: Any = variant
        for part in parents:
            holder = holder[part]
        holder[leaf] = change(holder[leaf])
        variants.append(variant)
    return variants


def _emptied(value: object) -> object:
    if isinstance(value, str):
        return ""
    array = np.asarray(value)
    return np.zeros_like(array) if array.dtype.kind in "biuf" else value


def _scrambled(value: object) -> object:
    draws = np.random.default_rng(1)
    if isinstance(value, str):
        return "do something else entirely"
    array = np.asarray(value)
    if array.dtype.kind == "u" and array.ndim == 3:
        return draws.integers(0, 256, size=array.shape).astype(array.dtype)
    if array.dtype.kind == "f":
        spread = 0.5 + float(np.abs(array).max(initial=0.0))
        return (array + draws.normal(0.0, spread, size=array.shape)).astype(array.dtype)
    return array


def _fingerprints(policies: Mapping[str, Policy], reference: Rollout | None) -> dict[str, Json]:
    """Every policy's answers to one and the same sequence of observations, compared."""
    if reference is None:
        return {"observations": 0, "pairs": []}
    answers = {name: _replay(policy, reference) for name, policy in policies.items()}
    names, pairs = list(policies), list[Json]()
    for index, name in enumerate(names):
        for other in names[index + 1 :]:
            first, second = answers[name], answers[other]
            known = first is not None and second is not None and first.shape == second.shape
            pairs.append(
                {
                    "pair": [name, other],
                    "known": known,
                    "largest": float(np.abs(first - second).max())
                    if first is not None and second is not None and known
                    else None,
                    "dims": [
                        None if each is None else int(each.shape[1]) for each in (first, second)
                    ],
                }
            )
    return {
        "observations": len(reference.observations),
        "complete": reference.complete,
        "pairs": pairs,
    }


def _replay(policy: Policy, reference: Rollout) -> np.ndarray | None:
    """`[observations, dim]` answers, or None if one could not be had."""
    answers: list[np.ndarray] = []
    try:
        with Blame("act"):
            seed_generators(0)
            policy.start_episode(wire_task(reference.task))
            for observation in reference.observations:
                reply = policy.act(copy.deepcopy(observation))
                answers.append(
                    checked_action(reply, answers[0].size if answers else None)["actions"]
                )
    except BrokenEpisodeError:
        answers = []
    _end(policy)
    return np.stack(answers) if answers else None


def _end(policy: Policy) -> None:
    try:
        with Blame("end_episode"):
            policy.end_episode({"metrics": {}, "steps": 0})
    except BrokenEpisodeError:
        # Only probing: the next question starts an episode of its own.
        return


def _size(observation: Mapping[str, Any]) -> int:
    return sum(
        leaf.nbytes if isinstance(leaf, np.ndarray) else 64 for _, leaf in leaves(observation)
    )

"""`scripted-author`: revises a grasp strategy by what the training grasps show.

It first changes the one thing that the evidence speaks for loudest. When such a single change was
turned down before, it changes everything the evidence speaks for at once. Where nothing failed it
tries once to do with fewer steps. Deterministic, and stateless: all it knows is in the message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from openeta_exp.domain.counting import counted
from openeta_exp.domain.grasp_strategy import (
    GraspHeight,
    GraspStrategy,
    Orientation,
    Release,
)
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.record import canonical_json, parse_json
from openeta_exp.domain.training import TrainingEpisode

CLOSED_OPENNESS = 0.05
"""A gripper that ends less open than this holds nothing."""
PATIENT_CLOSE_STEPS = 12
SWIFT_CLOSE_STEPS = 8
SWIFT = "swift"
HIGH_LIFT_M = 0.30
ELONGATED = 1.3
"""Ratio of the two horizontal extents from which a target has a short side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing to do differently, and how many failed grasps speak for it."""

    name: str
    weight: int
    because: str
    strategy: GraspStrategy


def strategy_author(messages: Sequence[ModelMessage]) -> str:
    """Answer an author's request (`openeta_exp.training_evidence.v1`)."""
    try:
        evidence = parse_json(messages[-1].text)
        assert isinstance(evidence, dict)
        strategy = GraspStrategy.model_validate_json(canonical_json(evidence["strategy_in_use"]))
        rows = evidence["episodes"]
        assert isinstance(rows, list)
        episodes = [TrainingEpisode.model_validate_json(canonical_json(row)) for row in rows]
    except (AssertionError, KeyError, ValueError, ValidationError):
        return _no_change("the request holds no training evidence")
    failed = [episode for episode in episodes if not episode.success]
    changes = sorted(_changes(strategy, failed), key=lambda change: -change.weight)
    earlier = evidence.get("earlier_candidates")
    if not changes:
        saving = None if failed else _saving(strategy, earlier)
        if saving is not None:
            return _propose(strategy, [saving], revision_of="a saving")
        return _no_change(
            f"{len(episodes) - len(failed)} of {len(episodes)} solved; no failed grasp speaks for "
            "a change"
        )
    if _turned_down(earlier):
        return _propose(strategy, changes, revision_of="every change the evidence speaks for")
    return _propose(strategy, changes[:1], revision_of="the loudest change alone")


def _turned_down(earlier: JsonValue) -> bool:
    """Was the latest attempt anything but promoted?"""
    if not isinstance(earlier, list) or not earlier:
        return False
    last = earlier[-1]
    return isinstance(last, dict) and last.get("stopped_by") != "promoted"


def _saving(strategy: GraspStrategy, earlier: JsonValue) -> Change | None:
    """Fewer steps for the same end, unless a saving was tried before."""
    tried = json.dumps(earlier)
    if strategy.motion_policy.close_steps <= SWIFT_CLOSE_STEPS or SWIFT in tried:
        return None
    return Change(
        name=SWIFT,
        weight=1,
        because=f"every episode was solved; {SWIFT_CLOSE_STEPS} closing steps may do",
        strategy=_with_motion(strategy, close_steps=SWIFT_CLOSE_STEPS),
    )


def _changes(strategy: GraspStrategy, failed: Sequence[TrainingEpisode]) -> list[Change]:
    """Every change that at least one failed episode speaks for."""
    motion = strategy.motion_policy
    grasps = [grasp for episode in failed for grasp in episode.grasps]
    stalled = sum(not grasp.reached_target for grasp in grasps)
    empty = sum(
        grasp.gripper_openness_after_close is not None
        and grasp.gripper_openness_after_close < CLOSED_OPENNESS
        for grasp in grasps
    )
    lost = sum(bool(grasp.lifted) for grasp in grasps)
    long_sides = sum(_is_elongated(grasp.target_extents_m) for grasp in grasps)
    found = [
        Change(
            name="top",
            weight=stalled,
            because=f"{counted(stalled, 'failed grasp')} never reached the contact pose",
            strategy=_with_motion(strategy, grasp_height=GraspHeight()),
        )
        if motion.grasp_height.reference == "centre"
        else None,
        Change(
            name="patient",
            weight=len(failed) + empty,
            because=f"{counted(len(failed), 'episode')} failed while closing takes "
            f"{counted(motion.close_steps, 'step')}",
            strategy=_with_motion(strategy, close_steps=PATIENT_CLOSE_STEPS),
        )
        if motion.close_steps < PATIENT_CLOSE_STEPS
        else None,
        Change(
            name="high",
            weight=lost,
            because=f"{counted(lost, 'target was', plural='targets were')} held and still did "
            "not arrive",
            strategy=_with_motion(strategy, lift_height_m=HIGH_LIFT_M, release=Release()),
        )
        if motion.lift_height_m < HIGH_LIFT_M or motion.release.mode == "drop"
        else None,
        Change(
            name="short-side",
            weight=long_sides,
            because=f"{counted(long_sides, 'failed target has', plural='failed targets have')} "
            "a short side",
            strategy=strategy.model_copy(
                update={
                    "pose_policy": strategy.pose_policy.model_copy(
                        update={"orientation": Orientation.TOP_DOWN_PRESERVE_YAW}
                    ),
                    "candidate_filter": strategy.candidate_filter.model_copy(
                        update={"avoid_collisions": True}
                    ),
                }
            ),
        )
        if strategy.pose_policy.orientation is Orientation.TOP_DOWN
        else None,
    ]
    return [change for change in found if change is not None and change.weight > 0]


def _with_motion(strategy: GraspStrategy, **changed: object) -> GraspStrategy:
    motion = strategy.motion_policy.model_copy(update=changed)
    return strategy.model_copy(update={"motion_policy": motion})


def _is_elongated(extents_m: tuple[float, float, float]) -> bool:
    _, closing, binormal = extents_m
    short, long = sorted((max(closing, 1e-6), max(binormal, 1e-6)))
    return long / short >= ELONGATED


def _propose(strategy: GraspStrategy, changes: Sequence[Change], *, revision_of: str) -> str:
    fields = _merged(strategy, changes)
    revision = strategy.revision + 1
    names = "-".join(change.name for change in changes)
    fields.update(
        {
            "strategy_id": f"{strategy.strategy_family_id}.r{revision}.{names}"[:96],
            "revision": revision,
            "supersedes": strategy.strategy_id,
            "status": "candidate",
            "description": f"{strategy.description} Revised: {names}.".strip(),
        }
    )
    reason = f"{revision_of}: " + "; ".join(change.because for change in changes)
    answer: JsonObject = {"decision": "propose", "reason": reason, "strategy": fields}
    return json.dumps(answer)


def _merged(strategy: GraspStrategy, changes: Sequence[Change]) -> JsonObject:
    """The strategy with the fields of every change, each taken from its own version."""
    before = strategy.model_dump(mode="json")
    merged = strategy.model_dump(mode="json")
    for change in changes:
        _overlay(merged, before, change.strategy.model_dump(mode="json"))
    return merged


def _overlay(merged: JsonObject, before: JsonObject, after: JsonObject) -> None:
    for key, value in after.items():
        old, target = before.get(key), merged.get(key)
        if isinstance(value, dict) and isinstance(old, dict) and isinstance(target, dict):
            _overlay(target, old, value)
        elif value != old:
            merged[key] = value


def _no_change(reason: str) -> str:
    answer: dict[str, JsonValue] = {"decision": "no_change", "reason": reason, "strategy": None}
    return json.dumps(answer)

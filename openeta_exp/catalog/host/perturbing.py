"""Changes the world or the observation in the middle of an episode, and proves that it did.

World effects need methods of the adapter; observation effects are applied here, after
`make_obs`. Every effect leaves a receipt: whether it fired, and what was there before and after.

    scale_actuator           scale_actuator(name, factor), get_actuator_limit(name)
    displace_body            get_body_pose(name) -> sequence that begins with x, y, z (metres),
                             set_body_pose(name, pose)
    apply_force              apply_force(name, wrench), get_applied_wrench(name); force in newtons
                             then torque in newton metres, world frame
    drop_observation         nothing
    substitute_observation   alternative(kind, name)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openeta_exp.catalog.host.blame import ADAPTER, BrokenEpisodeError
from openeta_exp.catalog.host.values import Json, digest_of, plain

PRIMITIVES = {
    "scale_actuator": ("scale_actuator", "get_actuator_limit"),
    "displace_body": ("get_body_pose", "set_body_pose"),
    "apply_force": ("apply_force", "get_applied_wrench"),
    "drop_observation": (),
    "substitute_observation": ("alternative",),
}
"""Methods an adapter must have, by effect."""


class Timeline:
    """The perturbations of one episode.

    Raises:
        BrokenEpisodeError: The adapter lacks a method an effect needs.
    """

    def __init__(self, plans: Sequence[Mapping[str, Any]], adapter: object) -> None:
        self._adapter: Any = adapter
        self._effects = [_Effect(plan) for plan in plans]
        for effect in self._effects:
            lacking = [name for name in PRIMITIVES[effect.type] if not hasattr(adapter, name)]
            if lacking:
                raise BrokenEpisodeError(
                    f"{effect.type} needs the adapter's {', '.join(lacking)}",
                    failure_class=ADAPTER,
                    code="adapter_lacks_primitive",
                )

    def change_world(self, step: int) -> None:
        """Begin and end world effects that are due before this step's action is applied."""
        for effect in self._effects:
            if effect.is_world and step == effect.at_step:
                self._begin(effect, step)
            elif effect.is_world and step == effect.until_step:
                self._end(effect, step)

    def change_observation(self, step: int, observation: dict[str, Any]) -> dict[str, Any]:
        """The observation the policy gets for this step."""
        for effect in self._effects:
            if not effect.is_world and effect.covers(step):
                observation = self._replace(effect, step, observation)
        return observation

    def receipts(self) -> list[Json]:
        return [dict(effect.receipt) for effect in self._effects]

    def _begin(self, effect: _Effect, step: int) -> None:
        before = self._world_state(effect)
        name, args = effect.target, effect.args
        if effect.type == "scale_actuator":
            self._adapter.scale_actuator(name, args["factor"])
        elif effect.type == "displace_body":
            self._displace(name, args["delta"])
        else:
            self._adapter.apply_force(name, list(args["wrench"]))
        effect.fired(step, before, self._world_state(effect))

    def _end(self, effect: _Effect, step: int) -> None:
        if effect.type == "scale_actuator":
            self._adapter.scale_actuator(effect.target, 1.0 / effect.args["factor"])
        else:
            self._displace(effect.target, [-each for each in effect.args["delta"]])
        effect.receipt["ended_at"] = step
        effect.receipt["restored"] = plain(self._world_state(effect))

    def _world_state(self, effect: _Effect) -> Json:
        if effect.type == "scale_actuator":
            return plain(self._adapter.get_actuator_limit(effect.target))
        if effect.type == "displace_body":
            return plain(self._adapter.get_body_pose(effect.target))
        return plain(self._adapter.get_applied_wrench(effect.target))

    def _displace(self, name: str, delta: Sequence[float]) -> None:
        pose = list(self._adapter.get_body_pose(name))
        pose[:3] = [here + by for here, by in zip(pose[:3], delta, strict=True)]
        self._adapter.set_body_pose(name, pose)

    def _replace(self, effect: _Effect, step: int, observation: dict[str, Any]) -> dict[str, Any]:
        *parents, leaf = effect.target.split(".")
        changed: dict[str, Any] = dict(observation)
        holder = changed
        for part in parents:
            if not isinstance(holder.get(part), Mapping):
                raise _absent(effect)
            holder[part] = dict(holder[part])
            holder = holder[part]
        if leaf not in holder:
            raise _absent(effect)
        before = holder[leaf]
        if effect.type == "substitute_observation":
            holder[leaf] = self._adapter.alternative(effect.args["kind"], effect.args["name"])
        elif effect.args.get("fill", "zeros") == "missing":
            del holder[leaf]
        else:
            holder[leaf] = _zeros_like(before)
        effect.fired(step, digest_of(before), digest_of(holder.get(leaf)))
        return changed


class _Effect:
    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.type: str = plan["type"]
        self.target: str = plan["target"]
        self.args: Mapping[str, Any] = plan["args"]
        self.at_step: int = plan["at_step"]
        self.until_step: int | None = plan.get("until_step")
        self.is_world = not self.type.endswith("_observation")
        self.receipt: dict[str, Json] = {
            "type": self.type,
            "target": self.target,
            "at_step": self.at_step,
            "fired": False,
            "applications": 0,
            "changed": 0,
        }

    def covers(self, step: int) -> bool:
        return self.at_step <= step and (self.until_step is None or step < self.until_step)

    def fired(self, step: int, before: Json, after: Json) -> None:
        receipt = self.receipt
        if not receipt["fired"]:
            receipt.update(fired=True, first_step=step, before=before, after=after)
        receipt["applications"] = int(str(receipt["applications"])) + 1
        receipt["changed"] = int(str(receipt["changed"])) + int(before != after)


def _zeros_like(value: object) -> object:
    if isinstance(value, str):
        return ""
    array = np.zeros_like(np.asarray(value))
    return array if isinstance(value, np.ndarray) else array.tolist()


def _absent(effect: _Effect) -> BrokenEpisodeError:
    return BrokenEpisodeError(
        f"{effect.type}: the observation has no {effect.target}",
        failure_class=ADAPTER,
        code="perturbation_target_absent",
    )

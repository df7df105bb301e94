"""The simulator's replies as records: read once; what cannot be read is refused."""

from __future__ import annotations

import pytest

from openeta_exp.domain.identity import JsonObject
from openeta_exp.wire.json_fields import FieldError
from openeta_exp.wire.openeta_tools import parse_environment_reply, reached_target

MOTION: JsonObject = {
    "target": {"x": 0.1, "y": 0.0, "z": 0.3},
    "end": {"xyz": [0.1, 0.0, 0.3]},
    "reward": 0.0,
    "terminated": False,
    "truncated": False,
}


def test_a_detected_collision_is_part_of_the_reply_and_means_the_target_was_not_reached() -> None:
    reply: JsonObject = {
        **MOTION,
        "reached_target": True,
        "collision": {"detected": True, "world_collision": True},
    }

    assert parse_environment_reply(reply).collision
    assert reached_target(reply) is False


@pytest.mark.parametrize(
    "collision", [None, {}, {"detected": False}, {"detected": "true"}, {"detected": 1}, "yes"]
)
def test_anything_but_the_checks_own_true_is_no_collision(collision: object) -> None:
    reply: JsonObject = {**MOTION, "collision": collision}  # type: ignore[dict-item]

    assert not parse_environment_reply(reply).collision


@pytest.mark.parametrize("reward", ["1.0", True, float("nan"), [1.0]])
def test_a_reward_that_is_no_finite_number_is_refused(reward: object) -> None:
    with pytest.raises(FieldError, match="reward"):
        parse_environment_reply({**MOTION, "reward": reward})  # type: ignore[dict-item]

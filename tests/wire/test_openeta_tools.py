"""The simulator's replies as records: read once; what cannot be read is refused."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.observation import Observation
from openeta_exp.domain.record import canonical_json
from openeta_exp.wire.images import encode_png
from openeta_exp.wire.json_fields import FieldError, objects_field
from openeta_exp.wire.openeta_tools import (
    error_text,
    parse_environment_reply,
    parse_observation,
    parse_reset,
    reached_target,
)

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


NO_NUMBERS = (10**400, -(10**400), float("nan"), float("inf"))
ODD = st.one_of(
    st.sampled_from((*NO_NUMBERS, "é", "=", "a===", "\ud800")),
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**400), max_value=10**400),
    st.floats(),
    st.text(st.characters(codec=None), max_size=6),
    st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=2)), max_size=9),
    st.dictionaries(st.text(max_size=3), st.floats(), max_size=2),
)
"""What stands where something else should."""


@st.composite
def damaged(draw: st.DrawFn, right: st.SearchStrategy[JsonValue]) -> JsonValue:
    """Something right, in which up to two things are missing or odd."""
    value = draw(right)
    for _ in range(draw(st.integers(0, 2))):
        value = _worse(draw, value)
    return value


def _worse(draw: st.DrawFn, value: JsonValue) -> JsonValue:
    if isinstance(value, dict) and value:
        name = draw(st.sampled_from(sorted(value)))
        kept = {key: inner for key, inner in value.items() if key != name}
        return kept if draw(st.booleans()) else {**kept, name: _worse(draw, value[name])}
    if isinstance(value, list) and value and draw(st.booleans()):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], _worse(draw, value[index]), *value[index + 1 :]]
    odd: JsonValue = draw(ODD)
    return odd


def objects(**fields: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    return st.fixed_dictionaries(fields).map(lambda found: {**found})


FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def vector(length: int) -> st.SearchStrategy[JsonValue]:
    return st.lists(FLOATS, min_size=length, max_size=length).map(lambda v: [*v])


def encoded(width: int, height: int) -> str:
    return base64.b64encode(encode_png(np.zeros((height, width), np.uint8))).decode("ascii")


CAMERAS = st.lists(
    objects(
        frame_id=st.sampled_from(["agentview", "wrist"]),
        width=st.just(4),
        height=st.just(3),
        rgb_base64=st.sampled_from([encoded(4, 3), "data:," + encoded(4, 3)]),
        depth_base64=st.sampled_from([encoded(4, 3), encoded(4, 3)[:40], None]),
        intrinsics=objects(fx=FLOATS, fy=FLOATS, cx=FLOATS, cy=FLOATS),
        extrinsics=objects(
            camera_frame=st.sampled_from(["opengl", "opencv", "ros"]),
            pos=vector(3),
            mat=st.one_of(st.none(), st.just([1.0, 0, 0, 0, 1, 0, 0, 0, 1]), vector(9)),
            quat_xyzw=vector(4),
        ),
        role=st.just("scene_primary"),
    ),
    max_size=2,
)
OBSERVATIONS = objects(
    task=st.text(max_size=3),
    cameras=CAMERAS,
    robot=objects(
        joint_positions=vector(2),
        end_effector_pose=objects(xyz=vector(3), quat_xyzw=vector(4)),
        gripper_state=objects(openness=FLOATS),
    ),
    objects=st.lists(objects(name=st.just("can"), position=vector(3)), max_size=2),
    metadata=objects(
        reward=FLOATS,
        terminated=st.booleans(),
        success_at_reset=st.booleans(),
        state_digest=st.just("0"),
        extra=st.integers(),
    ),
)
ACTIONS = objects(
    observation=OBSERVATIONS,
    reward=FLOATS,
    terminated=st.booleans(),
    truncated=st.booleans(),
    collision=objects(detected=st.booleans()),
    target=objects(x=FLOATS, y=FLOATS, z=FLOATS),
    end=objects(xyz=vector(3)),
)


def numbers(value: object) -> Iterator[float]:
    """Every number in a parsed record, however deep."""
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from numbers(inner)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            yield from numbers(getattr(value, each.name))


@settings(max_examples=300)
@given(st.one_of(damaged(OBSERVATIONS), damaged(ACTIONS)))
def test_a_reply_is_read_into_finite_numbers_or_refused_by_field(reply: JsonValue) -> None:
    assume(isinstance(reply, dict))
    assert isinstance(reply, dict)
    for parse in (parse_environment_reply, parse_observation, parse_reset):
        with suppress(FieldError):
            parsed = parse(reply)
            assert all(math.isfinite(number) for number in numbers(parsed))
            if isinstance(parsed, Observation):
                canonical_json(parsed.facts)
    assert reached_target(reply) in (True, False, None)
    error_text(reply)


@settings(max_examples=100)
@given(OBSERVATIONS)
def test_an_observation_is_refused_for_its_camera_poses_and_half_images_only(
    reply: JsonObject,
) -> None:
    try:
        observation = parse_observation(reply)
    except FieldError as error:
        assert any(name in str(error) for name in ("`mat`", "`quat_xyzw`", "`depth_base64`"))  # noqa: PT017
        return

    assert len(observation.cameras) == len(objects_field(reply, "cameras"))


def observed(**changes: JsonValue) -> JsonObject:
    return {"robot": {"end_effector_pose": {"xyz": [0, 0, 0.3]}}, "cameras": [], **changes}


def nested(levels: int) -> JsonValue:
    value: JsonValue = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "fact", [*NO_NUMBERS, "\ud800", nested(200)], ids=lambda fact: str(fact)[:9]
)
def test_a_fact_that_cannot_be_kept_is_refused(fact: JsonValue) -> None:
    with pytest.raises(FieldError, match="metadata"):
        parse_observation(observed(metadata={"quality": fact}))


@pytest.mark.parametrize("number", NO_NUMBERS, ids=lambda number: str(number)[:5])
def test_a_number_that_no_double_holds_is_refused_by_field(number: JsonValue) -> None:
    with pytest.raises(FieldError, match="reward"):
        parse_environment_reply({**MOTION, "reward": number})
    with pytest.raises(FieldError, match="xyz"):
        parse_observation({"robot": {"end_effector_pose": {"xyz": [0, 0, number]}}})


@pytest.mark.parametrize("text", ["é", "a===", "!!!!", "aGk=aGk=", "aGk"])
def test_what_is_not_base64_is_refused_by_field(text: str) -> None:
    camera: JsonObject = {
        "frame_id": "agentview",
        "width": 1,
        "height": 1,
        "rgb_base64": text,
        "intrinsics": {},
    }
    with pytest.raises(FieldError, match="`rgb_base64` is not base64"):
        parse_observation(observed(cameras=[camera]))


def test_a_quaternion_of_any_length_is_the_rotation_it_points_to() -> None:
    def seen(scale: float) -> Observation:
        camera: JsonObject = {
            "frame_id": "agentview",
            "width": 4,
            "height": 3,
            "rgb_base64": encoded(4, 3),
            "intrinsics": {"fx": 1, "fy": 1, "cx": 1, "cy": 1},
            "extrinsics": {
                "camera_frame": "ros",
                "pos": [0, 0, 0],
                "quat_xyzw": [0, 0, scale, scale],
            },
        }
        robot: JsonObject = {"end_effector_pose": {"xyz": [0, 0, 0]}}
        return parse_observation({"cameras": [camera], "robot": robot})

    [unit], [long] = seen(math.sqrt(0.5)).cameras, seen(1e200).cameras

    assert np.allclose(unit.world_from_camera, long.world_from_camera)
    # A ROS body that is turned a quarter to the left looks along the world's +y.
    assert np.allclose(np.array(unit.world_from_camera)[:3, 2], (0, 1, 0))


@pytest.mark.parametrize("error", [None, "", False, 0, {}, []])
def test_an_empty_error_is_none(error: JsonValue) -> None:
    assert error_text({**MOTION, "error": error}) is None


def test_a_reward_of_an_action_that_is_null_is_not_taken_for_none() -> None:
    with pytest.raises(FieldError, match="reward"):
        parse_environment_reply({**MOTION, "reward": None})

"""Frames of protocol 1: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from openeta_exp.wire.vla_eval import FrameError, pack, unpack

_ARRAYS = arrays.arrays(
    dtype=st.sampled_from([np.float32, np.float64, np.uint8, np.int64, np.bool_]),
    shape=arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    elements={"allow_nan": False},
)
_PAYLOADS = st.dictionaries(
    st.text(max_size=5).filter(lambda key: not key.startswith("__")),
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5) | _ARRAYS,
        lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and np.array_equal(one, other)
        )
    if isinstance(one, dict):
        return set(one) == set(other) and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


@given(_PAYLOADS, st.integers(0, 2**31))
def test_what_goes_in_comes_out(payload: dict[str, Any], seq: int) -> None:
    frame = unpack(pack("observation", payload, seq=seq))

    assert (frame.type, frame.seq) == ("observation", seq)
    assert equal(payload, frame.payload)


@given(st.binary(max_size=64) | st.text(max_size=8))
def test_bytes_that_are_no_frame_are_refused_and_never_crash(content: bytes | str) -> None:
    with pytest.raises(FrameError):
        unpack(content)


@pytest.mark.parametrize(
    "value",
    [
        {"__ndarray__": True, "data": b"x" * 8, "dtype": "|O", "shape": [1]},
        {"__ndarray__": True, "data": b"xx", "dtype": "<f4", "shape": [3]},
        {"__ndarray__": True, "data": b"xxxx", "dtype": "nonsense", "shape": [1]},
        {"__ndarray__": True},
        {"__image__": True, "format": "png", "data": b"no picture", "shape": [1, 1, 3]},
        {"__image__": True, "format": "png", "data": b"\x89PNG\r\n\x1a\nxxxx", "shape": [1, 1, 3]},
        {"__image__": True},
    ],
)
def test_arrays_and_images_that_are_none_are_refused(value: dict[str, Any]) -> None:
    message = {"type": "action", "payload": {"actions": value}, "seq": 1, "timestamp": 0.0}

    with pytest.raises(FrameError):
        unpack(msgpack.packb(message))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_images_survive_both_formats(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(5, 4, channels), dtype=np.uint8)

    for images in ("raw", "png"):
        frame = unpack(pack("observation", {"front": pixels}, seq=1, images=images))
        assert equal(pixels, frame.payload["front"])


def test_decoded_arrays_may_be_written_to() -> None:
    frame = unpack(pack("observation", {"states": np.zeros(3)}, seq=1))
    frame.payload["states"][0] = 1.0

    assert frame.payload["states"][0] == 1.0


def test_numpy_scalars_and_views_are_sent_as_what_they_hold() -> None:
    view = np.arange(12, dtype=np.int64).reshape(3, 4).T[::2]
    frame = unpack(pack("observation", {"n": np.float32(0.5), "v": view}, seq=1))

    assert frame.payload["n"] == 0.5
    assert equal(np.ascontiguousarray(view), frame.payload["v"])


def test_what_the_protocol_has_no_form_for_is_named() -> None:
    with pytest.raises(FrameError, match="a set"):
        pack("observation", {"x": {1, 2}}, seq=1)
    with pytest.raises(FrameError, match="object"):
        pack("observation", {"x": np.array([None])}, seq=1)

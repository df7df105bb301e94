"""vla-eval's protocol 1: one msgpack map per WebSocket frame, arrays and images inside it."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgpack
import numpy as np

PROTOCOL_VERSION = 1
MessageType = Literal["hello", "observation", "action", "episode_start", "episode_end", "error"]
ImageFormat = Literal["raw", "png"]

_TYPES = frozenset({"hello", "observation", "action", "episode_start", "episode_end", "error"})
_ARRAY, _IMAGE = "__ndarray__", "__image__"
_KINDS = "biuf"
_IMAGE_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class FrameError(ValueError):
    """A frame that is not protocol 1."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. A reply carries the `seq` of what it replies to."""

    type: str
    payload: dict[str, Any]
    seq: int


def pack(
    kind: MessageType, payload: Mapping[str, Any], *, seq: int, images: ImageFormat = "raw"
) -> bytes:
    """Encode a message.

    Args:
        images: How camera images travel. Every vla-eval server decodes both; `raw` costs a
            copy, `png` tens of milliseconds per image.

    Raises:
        FrameError: The payload holds something the protocol has no form for.
    """
    message = {"type": kind, "payload": payload, "seq": seq, "timestamp": time.time()}
    encode = _encode_png if images == "png" else _encode_raw
    try:
        packed: bytes = msgpack.packb(message, default=encode, use_bin_type=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise FrameError(f"{kind} cannot be encoded: {error}") from error
    return packed


def unpack(frame: bytes | str) -> Frame:
    """Decode a message; arrays own their memory and may be written to.

    Raises:
        FrameError: The bytes are no message of protocol 1.
    """
    if isinstance(frame, str):
        raise FrameError("a text frame, where protocol 1 has binary ones")
    try:
        message = msgpack.unpackb(frame, object_hook=_decode, raw=False)
    except (ValueError, TypeError, KeyError, OSError, msgpack.UnpackException) as error:
        raise FrameError(f"{len(frame)} bytes are no message: {error}") from error
    if not isinstance(message, dict):
        raise FrameError(f"a {type(message).__name__}, where a map is needed")
    kind, payload, seq = (message.get(name) for name in ("type", "payload", "seq"))
    if kind not in _TYPES or not isinstance(payload, dict) or not isinstance(seq, int):
        raise FrameError(f"type, payload or seq is missing or wrong: {sorted(map(str, message))}")
    return Frame(str(kind), payload, seq)


def _encode_raw(value: object) -> object:
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise TypeError(f"an array of {value.dtype}")
        content: object = np.ascontiguousarray(value).data.cast("B") if value.size else b""
        return {_ARRAY: True, "data": content, "dtype": value.dtype.str, "shape": value.shape}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__}")


def _encode_png(value: object) -> object:
    if isinstance(value, np.ndarray) and _is_image(value):
        from PIL import Image

        encoded = io.BytesIO()
        pixels = value[..., 0] if value.shape[2] == 1 else value
        Image.fromarray(pixels, _IMAGE_MODES[value.shape[2]]).save(encoded, "PNG")
        return {
            _IMAGE: True,
            "format": "png",
            "data": encoded.getvalue(),
            "shape": list(value.shape),
        }
    return _encode_raw(value)


def _is_image(array: np.ndarray) -> bool:
    return array.ndim == 3 and array.dtype == np.uint8 and array.shape[2] in _IMAGE_MODES


def _decode(value: dict[str, Any]) -> object:
    if value.get(_ARRAY) is True or (value.get(_IMAGE) is True and value["format"] == "raw"):
        dtype = np.dtype(value["dtype"])
        if dtype.kind not in _KINDS:
            raise ValueError(f"arrays of {dtype} are not part of the protocol")
        return np.frombuffer(value["data"], dtype=dtype).reshape(value["shape"]).copy()
    if value.get(_IMAGE) is True:
        return _decode_picture(value)
    return value


def _decode_picture(value: dict[str, Any]) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(value["data"])) as image:
            return np.array(image).reshape(value["shape"])
    except (SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"a picture that is none: {error}") from error

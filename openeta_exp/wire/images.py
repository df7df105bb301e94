"""PNG bytes <-> the arrays they carry: masks, depth in millimetres, colour."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

DEPTH_SCALE = 1000.0
"""Pixel value per metre of a 16-bit depth image."""


class ImageError(ValueError):
    """The bytes are not the image they should be."""


class ImageKindError(ImageError):
    """They are an image, but not of the kind that was asked for."""


_PNG_START = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def png_size(png: bytes) -> tuple[int, int]:
    """Width and height as the header says, without decoding anything.

    Raises:
        ImageError: No PNG.
    """
    if not png.startswith(_PNG_START) or len(png) < 24:
        raise ImageError("not a PNG")
    width, height = int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")
    if width == 0 or height == 0:
        raise ImageError("a PNG without a pixel")
    return width, height


def decode_rgb(png: bytes) -> NDArray[np.uint8]:
    """`[H, W, 3]` colour.

    Raises:
        ImageError: No image.
    """
    return np.asarray(_opened(png).convert("RGB"))


def decode_grey(png: bytes) -> NDArray[np.uint8]:
    """`[H, W]` pixel values of an image with one 8-bit channel.

    Raises:
        ImageError: No image; `ImageKindError` if it has more than one channel.
    """
    image = _opened(png)
    if image.mode not in ("1", "L"):
        raise ImageKindError(f"a mask has one 8-bit channel, this image is {image.mode}")
    return np.asarray(image.convert("L"))


def decode_mask(png: bytes) -> NDArray[np.bool_]:
    """`[H, W]`, True where a one-channel image is not black.

    Raises:
        ImageError: No image; `ImageKindError` if it has more than one channel.
    """
    return decode_grey(png) > 0


def decode_depth_m(png: bytes, *, scale: float = DEPTH_SCALE) -> NDArray[np.float32]:
    """`[H, W]` metres along the optical axis; 0 stays 0 and means unknown.

    Args:
        png: 16-bit grey.
        scale: Pixel value per metre.

    Raises:
        ImageError: No image; `ImageKindError` if it is not 16-bit grey.
    """
    image = _opened(png)
    if image.mode not in ("I;16", "I;16B", "I"):
        raise ImageKindError(f"depth is a 16-bit grey image, this one is {image.mode}")
    return np.asarray(np.asarray(image).astype(np.float32) / np.float32(scale))


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """`[H, W]` grey or `[H, W, 3]` colour as PNG; fast rather than small."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def encode_mask(mask: NDArray[np.bool_]) -> bytes:
    """One channel, 255 where True, else 0."""
    return encode_png(np.where(mask, np.uint8(255), np.uint8(0)))


def _opened(png: bytes) -> Image.Image:
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(io.BytesIO(png), formats=("PNG",))
        image.load()
    except (
        UnidentifiedImageError,
        Image.DecompressionBombError,
        OSError,
        SyntaxError,
        ValueError,
    ) as error:
        raise ImageError(f"not a readable PNG: {error}") from error
    return image

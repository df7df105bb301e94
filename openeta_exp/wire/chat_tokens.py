"""How many tokens a chat is worth when nobody counted them: one rule for text, one for images."""

from __future__ import annotations

import struct

from openeta_exp.domain.model import ModelMessage, ModelRequest

BYTES_PER_TOKEN = 4
MESSAGE_OVERHEAD_TOKENS = 4
IMAGE_NAME_TOKENS = 16
"""Of the words around an image's label, sent or left out."""
IMAGE_BASE_TOKENS = 85
IMAGE_TILE_TOKENS = 170
IMAGE_TILE_PX = 512
MAX_SIDE_PX = 2048
MAX_SHORT_SIDE_PX = 768
UNREADABLE_IMAGE_TOKENS = IMAGE_BASE_TOKENS + 4 * IMAGE_TILE_TOKENS

_PNG_MAGIC = b"\x89PNG\r\n\x1a\n"


def text_tokens(text: str) -> int:
    """A quarter of the UTF-8 bytes, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def is_png(content: bytes) -> bool:
    return content.startswith(_PNG_MAGIC)


def image_tokens(png: bytes) -> int:
    """The published rule for high detail: 85, and 170 for each tile of 512 pixels.

    The image is first shrunk to fit 2048 x 2048, then to a short side of 768 pixels. Bytes that
    do not begin like a PNG count as four tiles.
    """
    if not is_png(png) or len(png) < 24:
        return UNREADABLE_IMAGE_TOKENS
    width, height = struct.unpack(">II", png[16:24])
    long_side, short_side = max(width, height, 1), max(min(width, height), 1)
    scale = min(1.0, MAX_SIDE_PX / long_side)
    scale = min(scale, MAX_SHORT_SIDE_PX / short_side)
    tiles = 1
    for side in (long_side, short_side):
        tiles *= max(1, -(-round(side * scale) // IMAGE_TILE_PX))
    return IMAGE_BASE_TOKENS + tiles * IMAGE_TILE_TOKENS


def message_tokens(message: ModelMessage) -> int:
    """Text, images and the few tokens that frame a message."""
    images = sum(image_tokens(image.png) for image in message.images)
    return MESSAGE_OVERHEAD_TOKENS + text_tokens(message.text) + images


def prompt_tokens(request: ModelRequest, *, max_images: int) -> int:
    """A whole request as it is rendered: its last `max_images` images, and the names of all."""
    images = [image for message in request.messages for image in message.images]
    texts = sum(MESSAGE_OVERHEAD_TOKENS + text_tokens(message.text) for message in request.messages)
    names = sum(IMAGE_NAME_TOKENS + text_tokens(image.label) for image in images)
    return texts + names + sum(image_tokens(image.png) for image in images[-max_images:])

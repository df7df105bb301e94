from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.model import ModelImage, ModelMessage
from openeta_exp.wire.chat_tokens import (
    UNREADABLE_IMAGE_TOKENS,
    image_tokens,
    message_tokens,
    text_tokens,
)


def png(width: int, height: int) -> bytes:
    """The beginning of a PNG of that size; nothing else is looked at."""
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("four", 1), ("fours", 2), ("äö", 1), ("日本", 2)]
)
def test_four_bytes_are_a_token(text: str, tokens: int) -> None:
    assert text_tokens(text) == tokens


@pytest.mark.parametrize(
    ("width", "height", "tiles"),
    [(1, 1, 1), (256, 256, 1), (512, 512, 1), (513, 512, 2), (1024, 1024, 4), (4096, 8192, 6)],
)
def test_an_image_costs_by_its_tiles(width: int, height: int, tiles: int) -> None:
    assert image_tokens(png(width, height)) == 85 + 170 * tiles


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_no_size_costs_more_than_the_largest_that_is_looked_at(width: int, height: int) -> None:
    assert 85 + 170 <= image_tokens(png(width, height)) <= 85 + 170 * 8


@pytest.mark.parametrize("content", [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n"])
def test_bytes_that_are_no_png_cost_four_tiles(content: bytes) -> None:
    assert image_tokens(content) == UNREADABLE_IMAGE_TOKENS


def test_a_message_costs_its_text_its_images_and_its_frame() -> None:
    image = ModelImage(label="view", png=png(256, 256))

    assert message_tokens(ModelMessage(role="user", text="four", images=(image,))) == 4 + 1 + 255

"""Base64 in both directions: strict, and the same as the standard library's strict reading."""

from __future__ import annotations

import base64
import binascii

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openeta_exp.wire.base64_text import decode_base64, encode_base64


@given(st.binary(max_size=400))
def test_every_content_comes_back(content: bytes) -> None:
    text = encode_base64(content)

    assert text == base64.b64encode(content).decode("ascii")
    assert decode_base64(text) == content


@given(st.binary(max_size=400), st.sampled_from(["data:image/png;base64,", "data:,", ""]))
def test_a_data_url_and_line_breaks_are_read(content: bytes, prefix: str) -> None:
    assert decode_base64(prefix + base64.encodebytes(content).decode("ascii")) == content


@given(st.text(alphabet="AQgw+/=-_é!", max_size=12))
@example("AAAA=")
@example("AAAA====")
def test_what_the_standard_library_reads_strictly_is_read_and_nothing_else(text: str) -> None:
    try:
        # Some versions of Python read past padding that no group asks for.
        if text.endswith("=") and len(text.rstrip("=")) % 4 == 0:
            raise ValueError("surplus padding")
        expected = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        with pytest.raises(ValueError):
            decode_base64(text)
    else:
        assert decode_base64(text) == expected

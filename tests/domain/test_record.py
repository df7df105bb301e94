"""JSON from outside: what is let in can be kept in a record and written again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from openeta_exp.domain.record import MAX_NESTING, canonical_json, check_json, parse_json
from openeta_exp.domain.tool import ToolCall

NUMBERS = st.one_of(
    st.integers(), st.integers(min_value=10**300, max_value=10**320), st.floats(allow_nan=False)
)
TEXTS = st.text(st.characters(codec=None), max_size=8)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[-Infinity]",
        "1e999",
        '{"x": -1e400}',
        "1" + "0" * 309,
        "9" * 5_000,
        '"\\ud800"',
        '{"\\udfff": 1}',
        "[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1),
        '{"a":' * 100_000,
        '"\ud800"',
        "{",
        "",
    ],
    ids=lambda text: ascii(text[:12]) or "nothing",
)
@pytest.mark.parametrize("encoded", [False, True])
def test_what_no_record_can_keep_is_refused(text: str, encoded: bool) -> None:
    with pytest.raises(ValueError):
        parse_json(text.encode("utf-8", "surrogatepass") if encoded else text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * MAX_NESTING + "7" + "]" * MAX_NESTING,
        "[]",
        "7",
        '"\\ud83e\\udd16"',
        "1" + "0" * 308,
        "1.7976931348623157e308",
        '"\\\\ud800"',
    ],
    ids=lambda text: text[:12],
)
def test_what_lies_just_inside_is_accepted(text: str) -> None:
    assert parse_json(text) == json.loads(text)


@given(VALUES)
def test_what_is_accepted_goes_through_a_record_unchanged(value: JsonValue) -> None:
    text = json.dumps(value)
    try:
        parsed = parse_json(text)
    except ValueError:
        return
    call = ToolCall(name="any", arguments={"value": parsed})

    assert parsed == value
    assert ToolCall.from_json(call.to_json()) == call
    assert parse_json(canonical_json(parsed)) == value


@given(st.one_of(VALUES, st.lists(st.floats(), min_size=1, max_size=2)))
def test_a_value_is_accepted_like_its_text(value: JsonValue) -> None:
    try:
        parse_json(canonical_json(value))
    except ValueError:
        with pytest.raises(ValueError):
            check_json(value)
    else:
        check_json(value)

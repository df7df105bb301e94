"""The JSON object a model meant, among whatever else it wrote."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.wire.model_json import MAX_OBJECTS, AnswerError, the_object

KEYS = frozenset({"decision"})
MEANT: dict[str, object] = {"decision": "approve", "reason": "the path { is free }"}
TEXT = json.dumps(MEANT)
MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"```json\n{TEXT}\n```",
        f"I thought about {{this}} and \\frac{{1}}{{2}}.\n{TEXT}\nThat is {{all}}.",
        f'<think>not {{about}}: {{"decision": "reject"}}</think>\n{TEXT}',
        f'<think>one</think><think>{{"decision": "rej</think>{TEXT}',
        f'a template opened it {{"decision": "reject"}} and {{"deci</think>\n{TEXT}',
        f'{TEXT}<think>or {{"decision": "reject"}}? I was cut',
        f"{TEXT}\n{TEXT}",
        f'{TEXT} {{"confidence": 0.9}}',
        f'{{"seen": [{{"decision": "reject"}}]}} {TEXT}',
        f"an open {{ brace, then {TEXT}",
        f'{{"decision" broken}} once more: {TEXT}',
    ],
    ids=lambda text: text[:30],
)
def test_the_object_that_was_asked_for_is_found(text: str) -> None:
    assert the_object(text, keys=KEYS) == MEANT


def test_a_tag_within_a_string_is_no_thought() -> None:
    text = json.dumps({"decision": "reject", "reason": "says <think>{</think>", "x": "</think>"})

    assert the_object(text, keys=KEYS)["reason"] == "says <think>{</think>"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "exactly one JSON object"),
        ("{'decision': 'approve'}", "double quotes"),
        (f"<think>{TEXT}", "exactly one JSON object"),
        (f"{TEXT}</think>", "exactly one JSON object"),
        ('{"decision": "approve"', "not valid JSON"),
        ('{"decision": NaN}', "not valid JSON"),
        ('{"decision": "reject", "decision": "approve"}', "given twice"),
        (f'{TEXT} {{"decision": "rej', "not valid JSON"),
        ('{"decision": "reject"} {"decision": "approve"}', "objects that differ"),
        # What is left of a broken object is not what was decided.
        ('{"all": [{"decision": "reject"} {"decision": "approve"}]}', "not valid JSON"),
        ('{"all": [{"decision": "reject"}, {"decision": "approve"}', "not valid JSON"),
        ('{\'all\': [{"decision": "approve"}]}', "exactly one JSON object"),
        ('{"a":' * 5_000 + TEXT, "not valid JSON"),
    ],
    ids=lambda text: text[:30],
)
def test_what_cannot_be_told_for_sure_is_an_error(text: str, problem: str) -> None:
    with pytest.raises(AnswerError, match=problem):
        the_object(text, keys=KEYS)


@pytest.mark.parametrize(
    ("unit", "problem"),
    [
        ("{", "exactly one JSON object"),
        ("{ ", "exactly one JSON object"),
        ('{"', "not valid JSON"),
        ('{"a":', "not valid JSON"),
        ('{"}', f"more than {MAX_OBJECTS}"),
        ('{"}":[', f"more than {MAX_OBJECTS}"),
        ("{}", f"more than {MAX_OBJECTS}"),
        ("{}}", f"more than {MAX_OBJECTS}"),
        ("</think>{", "exactly one JSON object"),
        ("<think>{", "exactly one JSON object"),
    ],
)
def test_a_megabyte_of_braces_is_given_up_after_a_bounded_number_of_tries(
    unit: str, problem: str
) -> None:
    with pytest.raises(AnswerError, match=problem):
        the_object(unit * (MEGABYTE // len(unit)), keys=KEYS)


PIECES = st.sampled_from([TEXT, "{", "}", '"', "<think>", "</think>", '{"decision": 1}', "x", ","])


@given(st.lists(PIECES).map("".join))
def test_any_text_holds_a_whole_object_or_is_an_error(text: str) -> None:
    with suppress(AnswerError):
        found = the_object(text, keys=KEYS)
        assert found in (MEANT, {"decision": 1}, {})


@given(
    st.dictionaries(st.text(), st.text() | st.floats(allow_nan=False, allow_infinity=False)),
    st.text(st.characters(exclude_characters="{}<>", exclude_categories=["Cs"])),
)
def test_prose_around_an_object_changes_nothing(fields: dict[str, object], prose: str) -> None:
    meant = {**fields, "decision": "answer"}

    assert the_object(f"{prose}{json.dumps(meant)}{prose}", keys=KEYS) == meant

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.adapters.provider.dialect import Dialect
from openeta_exp.adapters.provider.failures import (
    MAX_REASON_CHARACTERS,
    FailureClass,
    classify,
    presentable,
    retry_after_s,
    status_named,
)

NOW_S = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": formatdate(NOW_S + 30, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(NOW_S - 30, usegmt=True)}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_a_wait_is_read_in_every_form_that_makes_sense(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_s(headers, now_unix_s=NOW_S) == seconds


@given(st.text())
def test_any_header_is_a_wait_or_none(text: str) -> None:
    seconds = retry_after_s({"retry-after": text}, now_unix_s=NOW_S)

    assert seconds is None or seconds >= 0


@given(status=st.integers(400, 599), text=st.text(), code=st.text())
def test_every_error_has_a_class_and_only_transient_ones_wait(
    *, status: int, text: str, code: str
) -> None:
    failure = classify(
        status,
        codes=frozenset({code}),
        text=text,
        headers={"retry-after": "3"},
        now_unix_s=NOW_S,
    )

    assert failure.transient == (failure.kind is FailureClass.UNAVAILABLE)
    assert (failure.retry_after_s is not None) == failure.transient


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        (set(), 502),
        ({"server_error"}, 502),
        ({"402"}, 402),
        ({"429", "rate_limit_error"}, 429),
        ({"too_many_requests"}, 429),
        ({"RESOURCE_EXHAUSTED"}, 429),
        ({"200"}, 502),
        ({"4000"}, 502),
        ({"9" * 5000}, 502),
    ],
)
def test_an_error_without_a_status_of_its_own_is_a_bad_gateway(
    codes: set[str], status: int
) -> None:
    assert status_named(frozenset(codes)) == status


@given(st.text(), st.text(min_size=8))
def test_what_is_shown_is_one_short_line_without_the_secret(text: str, secret: str) -> None:
    shown = presentable(f"{text} {secret} {text}", secret=secret)

    assert len(shown) <= MAX_REASON_CHARACTERS
    assert "\n" not in shown
    assert secret not in shown or secret in "[key]"


REFUSED_LIMIT = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead."
)


def test_a_refused_limit_is_renamed() -> None:
    adapted = Dialect().after_refusal(400, parameter="max_tokens", text=REFUSED_LIMIT)

    assert adapted == Dialect(max_tokens_field="max_completion_tokens")
    assert adapted.after_refusal(400, parameter="max_tokens", text=REFUSED_LIMIT) is None


@pytest.mark.parametrize("field", ["temperature", "response_format"])
def test_a_refused_option_is_left_out_once(field: str) -> None:
    text = f"unsupported_value Unsupported value: '{field}' does not support this"
    adapted = Dialect().after_refusal(400, parameter="", text=text)

    assert adapted == Dialect(omit=frozenset({field}))
    assert adapted.after_refusal(400, parameter="", text=text) is None


@pytest.mark.parametrize(
    ("status", "parameter", "text"),
    [
        (500, "temperature", "unsupported"),
        (400, "messages", "unsupported temperature"),
        (400, "", "the temperature is nice today"),
        (422, "model", "unknown model"),
    ],
)
def test_other_refusals_change_nothing(status: int, parameter: str, text: str) -> None:
    assert Dialect().after_refusal(status, parameter=parameter, text=text) is None


def test_two_lessons_learned_at_once_are_both_kept() -> None:
    renamed = Dialect(max_tokens_field="max_completion_tokens")
    shortened = Dialect(omit=frozenset({"temperature"}))

    assert renamed.joined(shortened) == shortened.joined(renamed)
    assert renamed.joined(shortened).omit == {"temperature"}
    assert renamed.joined(shortened).max_tokens_field == "max_completion_tokens"

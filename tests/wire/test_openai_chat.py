from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.model import ModelImage, ModelMessage, ModelRequest, ModelRole
from openeta_exp.wire.openai_chat import (
    ChatFormatError,
    ReportedError,
    parse_reply,
    parse_request,
    render_completion,
    render_request,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
MESSAGES = st.lists(
    st.builds(
        ModelMessage,
        role=st.sampled_from(["system", "user", "assistant"]),
        text=TEXT,
        images=st.lists(
            st.builds(ModelImage, label=TEXT, png=st.binary().map(lambda tail: PNG + tail)),
            max_size=2,
        ).map(tuple),
    ),
    min_size=1,
    max_size=4,
)


@given(MESSAGES)
def test_a_server_reads_what_a_client_rendered(messages: list[ModelMessage]) -> None:
    request = ModelRequest(role=ModelRole.PLANNER, messages=tuple(messages), max_output_tokens=99)

    read = parse_request(render_request(request, model="m", max_images=100))

    assert (read.model, read.max_tokens, read.stream) == ("m", 99, False)
    for sent, got in zip(messages, read.conversation(), strict=True):
        assert (sent.role, sent.text) == (got.role, got.text)
        assert [each.png for each in sent.images] == [each.png for each in got.images]


def test_over_the_limit_the_latest_images_are_kept() -> None:
    def message(label: str) -> ModelMessage:
        image = ModelImage(label=label, png=PNG + label.encode())
        return ModelMessage(role="user", text=label, images=(image,))

    request = ModelRequest(
        role=ModelRole.PLANNER,
        messages=tuple(message(label) for label in "abc"),
        max_output_tokens=9,
    )
    read = parse_request(render_request(request, model="m", max_images=2))

    assert [len(each.images) for each in read.conversation()] == [0, 1, 1]


@given(text=TEXT, finish_reason=st.sampled_from(["stop", "length"]))
def test_a_client_reads_what_a_server_rendered(text: str, finish_reason: str) -> None:
    completion = render_completion(
        text, model="m", usage=None, identifier="x", finish_reason=finish_reason
    )
    reply = parse_reply(json.dumps(completion))

    assert (reply.text, reply.model, reply.finish_reason) == (text, "m", finish_reason)


def test_text_parts_are_joined_and_thoughts_left_out() -> None:
    parts = [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]

    assert parse_reply(json.dumps({"choices": [{"message": {"content": parts}}]})).text == "ab"


@pytest.mark.parametrize(
    "body",
    ['{"choices": []}', '{"choices": null}', "{}", '{"choices": [{"message": {"content": null}}]}'],
)
def test_an_answer_without_content_reads_as_empty(body: str) -> None:
    assert parse_reply(body).text == ""


def test_an_error_is_read_in_place_of_the_answer_it_came_with() -> None:
    said = {"message": "slow down", "code": 429, "type": "limit", "param": None}
    reply = parse_reply(json.dumps({"error": said, "choices": "none", "usage": {}}))

    assert reply.error == ReportedError(message="slow down", codes=frozenset({"429", "limit"}))
    assert (reply.text, reply.usage) == ("", None)


@pytest.mark.parametrize("said", ['"it broke"', '{"why": "it broke"}', '["it broke"]'])
def test_an_error_in_any_form_keeps_its_words(said: str) -> None:
    error = parse_reply(f'{{"error": {said}}}').error

    assert error is not None
    assert "it broke" in error.message


@given(TEXT | JSON.map(json.dumps))
def test_any_body_is_a_reply_or_a_format_error(body: str) -> None:
    with suppress(ChatFormatError):
        parse_reply(body)


@given(
    st.fixed_dictionaries(
        {}, optional={"choices": JSON, "usage": JSON, "model": JSON, "error": JSON}
    )
)
def test_any_object_is_a_reply_or_a_format_error(fields: dict[str, object]) -> None:
    with suppress(ChatFormatError):
        reply = parse_reply(json.dumps(fields))
        assert isinstance(reply.text, str)


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_request_is_read_or_refused(body: bytes) -> None:
    with suppress(ChatFormatError):
        parse_request(body)


def test_a_refusal_names_the_field() -> None:
    with pytest.raises(ChatFormatError, match="messages"):
        parse_request(b'{"model": "m", "messages": []}')

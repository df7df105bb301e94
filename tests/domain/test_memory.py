"""A session's memory keeps what fits, and what it drops leaves a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.domain.guidance import AnsweredQuestion, AnswerSource
from openeta_exp.domain.memory import (
    KEPT_ENTRIES,
    MAX_CHARACTERS,
    MAX_ENTRIES,
    MAX_SUMMARY_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    MemoryEntry,
    Namespace,
    SessionMemory,
)

ENTRIES = st.builds(
    MemoryEntry,
    namespace=st.sampled_from(Namespace),
    key=st.text("abc", min_size=1, max_size=3),
    value=st.text(max_size=200) | st.integers() | st.none(),
)


def entry(key: str, value: str = "v") -> MemoryEntry:
    return MemoryEntry(namespace=Namespace.FACTS, key=key, value=value)


@given(st.lists(ENTRIES, max_size=40))
def test_the_last_value_of_a_key_counts_and_survives_the_disk(entries: list[MemoryEntry]) -> None:
    memory = SessionMemory()
    for each in entries:
        memory = memory.saved(each)

    last = {(each.namespace, each.key): each.value for each in entries}
    assert {(each.namespace, each.key): each.value for each in memory.entries} == last
    assert SessionMemory.from_json(memory.to_json()) == memory


def test_it_stays_bounded_whatever_is_saved() -> None:
    memory = SessionMemory()
    for number in range(3 * MAX_ENTRIES):
        memory = memory.saved(entry(f"k{number}", "x" * (MAX_VALUE_CHARACTERS - 2)))

    assert len(memory.entries) <= MAX_ENTRIES
    assert sum(each.characters for each in memory.entries) <= MAX_CHARACTERS
    assert len(memory.summary) <= MAX_SUMMARY_CHARACTERS
    assert memory.entries[-1].key == f"k{3 * MAX_ENTRIES - 1}"


def test_compaction_keeps_the_newest_whole_and_a_line_of_the_others() -> None:
    memory = SessionMemory()
    for number in range(KEPT_ENTRIES + 2):
        memory = memory.saved(entry(f"k{number}", "x" * 100))

    compacted = memory.compacted()

    assert [each.key for each in compacted.entries] == [f"k{n}" for n in range(2, KEPT_ENTRIES + 2)]
    assert [line[:10] for line in compacted.summary.splitlines()] == ["facts/k0: ", "facts/k1: "]
    assert compacted.compacted() == compacted


def test_a_value_that_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(ValueError, match=f"{MAX_VALUE_CHARACTERS} characters, has 5002"):
        SessionMemory().saved(entry("k", "x" * 5_000))


def test_guidance_is_never_remembered_as_a_person() -> None:
    def said(source: AnswerSource, text: str) -> AnsweredQuestion:
        return AnsweredQuestion(
            interaction_id="i", question="Which?", answer=text, source=source, at_s=0.0
        )

    memory = SessionMemory()
    for answer in (
        said(AnswerSource.HUMAN, "left"),
        said(AnswerSource.GUIDANCE_AGENT, "right"),
    ):
        memory = memory.answered(answer)

    assert memory.latest_human_interaction == said(AnswerSource.HUMAN, "left")
    assert memory.latest_guidance_interaction == said(AnswerSource.GUIDANCE_AGENT, "right")
    assert memory.compacted().answers == memory.answers

"""What an agent chose to keep during one session, bounded whatever it saves."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, JsonValue

from openeta_exp.domain.guidance import AnsweredQuestion, AnswerSource
from openeta_exp.domain.record import Record, canonical_json

MAX_KEY_CHARACTERS = 128
MAX_VALUE_CHARACTERS = 4_000
MAX_ENTRIES = 200
MAX_CHARACTERS = 80_000
"""All values together; what goes beyond is compacted, oldest first."""
MAX_SUMMARY_CHARACTERS = 20_000
KEPT_ENTRIES = 12
"""Newest entries a compaction leaves alone."""
_SHORT = 80


class Namespace(StrEnum):
    """Drawers of the memory. Host state is in none of them and cannot be addressed."""

    FACTS = "facts"
    ARTIFACTS = "artifacts"
    SKILL_NOTES = "skill_notes"


class MemoryEntry(Record):
    namespace: Namespace
    key: str = Field(min_length=1, max_length=MAX_KEY_CHARACTERS)
    value: JsonValue

    @property
    def characters(self) -> int:
        return len(canonical_json(self.value))


class SessionMemory(Record):
    """One session's memory. Immutable; a change is a new one."""

    entries: tuple[MemoryEntry, ...] = ()
    """Oldest first."""
    summary: str = Field(default="", max_length=MAX_SUMMARY_CHARACTERS)
    """What became of compacted entries, newest last."""
    answers: tuple[AnsweredQuestion, ...] = ()
    """Written by the host alone."""

    @property
    def latest_guidance_interaction(self) -> AnsweredQuestion | None:
        return self._latest(AnswerSource.GUIDANCE_AGENT)

    @property
    def latest_human_interaction(self) -> AnsweredQuestion | None:
        return self._latest(AnswerSource.HUMAN)

    def _latest(self, source: AnswerSource) -> AnsweredQuestion | None:
        return next((each for each in reversed(self.answers) if each.source is source), None)

    def get(self, namespace: Namespace, key: str) -> MemoryEntry | None:
        return next((each for each in self.of(namespace) if each.key == key), None)

    def of(self, namespace: Namespace | None) -> tuple[MemoryEntry, ...]:
        """Entries of one drawer, or all of them."""
        return tuple(
            each for each in self.entries if namespace is None or each.namespace is namespace
        )

    def saved(self, entry: MemoryEntry) -> Self:
        """With an entry added or replaced, compacted as far as its size asks for.

        Raises:
            ValueError: The value is too long to be kept.
        """
        if entry.characters > MAX_VALUE_CHARACTERS:
            raise ValueError(
                f"a value may have {MAX_VALUE_CHARACTERS} characters, has {entry.characters}"
            )
        grown = self._with((*self.without(entry.namespace, entry.key).entries, entry))
        kept = MAX_ENTRIES
        while kept > 1 and (
            len(grown.entries) > MAX_ENTRIES
            or sum(each.characters for each in grown.entries) > MAX_CHARACTERS
        ):
            kept //= 2
            grown = grown.compacted(keep=kept)
        return grown

    def without(self, namespace: Namespace, key: str) -> Self:
        return self._with(
            tuple(each for each in self.entries if (each.namespace, each.key) != (namespace, key))
        )

    def compacted(self, *, keep: int = KEPT_ENTRIES) -> Self:
        """The newest entries whole; of the others one short line each in the summary."""
        cut = max(0, len(self.entries) - keep)
        lines = [self.summary] if self.summary else []
        for each in self.entries[:cut]:
            text = canonical_json(each.value).decode("utf-8")
            shown = text if len(text) <= _SHORT else f"{text[:_SHORT]}..."
            lines.append(f"{each.namespace}/{each.key}: {shown}")
        summary = "\n".join(lines)[-MAX_SUMMARY_CHARACTERS:]
        return self.model_copy(update={"entries": self.entries[cut:], "summary": summary})

    def answered(self, answer: AnsweredQuestion) -> Self:
        return self.model_copy(update={"answers": (*self.answers, answer)})

    def _with(self, entries: tuple[MemoryEntry, ...]) -> Self:
        return self.model_copy(update={"entries": entries})

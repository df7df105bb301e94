"""What an episode that waited for a person takes along when it starts again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.guidance import AnsweredQuestion
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.engine.episode_record import EpisodeRecord
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.ports.session_log import SessionLog


class KeepPaused(Protocol):
    """Puts an episode that waits for a person on disk."""

    def __call__(
        self, outcome: EpisodeResult, *, spec: EpisodeSpec, asked: tuple[str, ...]
    ) -> None:
        """Raises: StoreError: It could not be written; the run must stop."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """A claimed question with its answer, for the episode that asked it."""

    paused: PausedEpisode
    answer: AnsweredQuestion

    def carry_over(self, record: EpisodeRecord) -> None:
        """Tool calls, tokens, denials and assistance stay cumulative; turns and clock are fresh."""
        before = self.paused.outcome
        used = before.usage
        record.session_id = before.session_id
        record.tool_calls = used.tool_calls
        record.tokens = used.tokens
        record.model_requests = used.model_requests
        record.validation_retries = used.validation_retries
        record.denied_calls = used.denied_calls
        record.denied_before = used.denied_calls
        record.context_characters_max = used.context_characters_max
        record.guidance_interventions = before.assistance.guidance_interventions
        record.human_interventions = before.assistance.human_interventions + 1
        record.asked = self.paused.asked

    def deliver(self, host: EpisodeHost, log: SessionLog) -> None:
        """Write the answer to the session and tell the planner.

        Raises:
            StoreError: The session cannot be written.
        """
        memory = log.memory()
        if self.answer not in memory.answers:
            memory = memory.answered(self.answer)
            log.keep_memory(memory)
        host.memory = memory
        host.feedback.append(f"human: {self.answer.answer}")

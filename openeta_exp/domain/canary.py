"""The cheap first look at a candidate: does it work at all? It claims nothing statistical."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from openeta_exp.domain.counting import counted
from openeta_exp.domain.pair import ArmObservation
from openeta_exp.domain.record import Record


class SmokeTest(Record):
    """What a few episodes of the candidate showed.

    They are never compared with the training run that produced it: episodes chosen because they
    failed succeed more often when they are run again, changed or not.
    """

    attempts: int = Field(ge=0)
    """Those that were solved at reset are none."""
    successes: int = Field(ge=0)
    problems: tuple[str, ...] = ()
    """Every one, a sentence each; empty if the candidate may go on to the gate."""

    @property
    def passed(self) -> bool:
        return not self.problems


def smoke_test(episodes: Sequence[ArmObservation]) -> SmokeTest:
    """No crash, no violation, and at least one success on the environment's word.

    What was solved at reset says nothing, and is left out.
    """
    episodes = [episode for episode in episodes if not episode.solved_at_reset]
    successes = sum(episode.objective_success for episode in episodes)
    problems = [
        f"{episode.key} broke: {episode.failure_class}" for episode in episodes if episode.broke
    ]
    problems += [
        f"{episode.key}: {counted(count, f'{kind} violation')}"
        for episode in episodes
        for kind, count in (
            ("safety", episode.safety_violations),
            ("contract", episode.contract_violations),
        )
        if count
    ]
    if successes == 0:
        problems.append(f"none of {counted(len(episodes), 'canary episode')} succeeded")
    return SmokeTest(attempts=len(episodes), successes=successes, problems=tuple(problems))

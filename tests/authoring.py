"""Authors that try things out, in the world of `tests.generations`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from openeta_exp.adapters.authoring.gepa_author import GepaStrategyAuthor
from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.domain.candidate import Proposal
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import CandidateProposed, EpisodeEnded, Event
from openeta_exp.domain.grasp_strategy import GraspStrategy
from openeta_exp.domain.model import ModelMessage
from openeta_exp.engine.author import Allowance
from openeta_exp.engine.generation import GenerationEngine
from openeta_exp.engine.lane import Episodes, Workshop
from openeta_exp.engine.lineage import AUTHORING
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.ports.author import Author
from openeta_exp.ports.provider import Provider
from tests.generations import lineage_engine, run_everything


class KilledError(Exception):
    pass


class MortalJournal(MemoryJournal):
    """A process that is killed when it has written so many facts; what was written stays."""

    def __init__(self, kept: Sequence[Event] = ()) -> None:
        super().__init__()
        for event in kept:
            super().append(event)
        self.left: int | None = None

    def append(self, event: Event) -> int:
        if self.left == 0:
            raise KilledError
        if self.left is not None:
            self.left -= 1
        return super().append(event)

    @property
    def facts(self) -> list[Event]:
        return [event for _, event in self.events()]


def longer(messages: Sequence[ModelMessage], *, by: int = 3) -> str:
    """A model's answer: the strategy it is shown, closing for more steps."""
    shown = GraspStrategy.model_validate(json.loads(messages[-1].text)["strategy_in_use"])
    written = shown.model_dump(mode="json") | {
        "strategy_id": f"{shown.strategy_family_id}.next",
        "revision": shown.revision + 1,
        "supersedes": shown.strategy_id,
    }
    written["motion_policy"]["close_steps"] += by
    return json.dumps({"decision": "propose", "reason": f"{by} more", "strategy": written})


def gepa(provider: Provider, *, seed: int = 0, episodes: int = 6) -> GepaStrategyAuthor:
    return GepaStrategyAuthor(provider, episodes_per_candidate=episodes, minibatch=3, seed=seed)


def engine_with(
    author: Author,
    journal: MemoryJournal,
    *,
    of: LineagePlan,
    allowance: Allowance,
    episodes: Episodes = run_everything,
) -> GenerationEngine:
    engine = lineage_engine(of, journal, close_steps=())
    return replace(
        engine,
        workshop=replace(engine.workshop, episodes=episodes),
        staff=replace(
            engine.staff, authors={ArtifactKind.GRASP_STRATEGY: author}, allowance=allowance
        ),
    )


def workshop(
    journal: MemoryJournal,
    *,
    of: LineagePlan,
    episodes: Episodes = run_everything,
) -> Workshop:
    return replace(lineage_engine(of, journal, close_steps=()).workshop, episodes=episodes)


def authored(events: Sequence[Event]) -> list[EpisodeOutcome]:
    """Outcomes of episodes that an author asked for."""
    return [
        event.outcome
        for event in events
        if isinstance(event, EpisodeEnded) and AUTHORING in event.batch_id
    ]


def proposals(events: Sequence[Event]) -> list[Proposal]:
    """Of the strategy lane."""
    return [
        event.proposal
        for event in events
        if isinstance(event, CandidateProposed) and event.lane is ArtifactKind.GRASP_STRATEGY
    ]

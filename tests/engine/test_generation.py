"""Generations: what is promoted, what is not and why, and that an interruption changes nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Candidate, Proposal, Review, ReviewDecision
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import (
    BatchStarted,
    ComparisonEnded,
    ComparisonPlanned,
    EpisodeEnded,
    Event,
)
from openeta_exp.domain.gate import SequentialGate, Tier
from openeta_exp.domain.generation import ExperimentResult, LaneResult, LaneStop
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.engine.batch import RunEpisode
from openeta_exp.engine.generation import GenerationEngine
from openeta_exp.errors import SettingsError
from openeta_exp.ports.author import Author, Reviewer, Workbench
from openeta_exp.ports.store import Journal
from tests import batches
from tests.generations import lineage, lineage_engine, plan, run_everything, strategy, tree_of

pytestmark = pytest.mark.anyio


def strategy_lanes(result: ExperimentResult) -> list[LaneResult]:
    return [
        lane
        for generation in result.generations
        for lane in generation.lanes
        if lane.kind is ArtifactKind.GRASP_STRATEGY
    ]


async def test_a_better_candidate_is_promoted_and_the_next_generation_starts_from_it() -> None:
    result, _ = await lineage(19, 19)

    first, second = strategy_lanes(result)
    assert first.stop is LaneStop.PROMOTED
    assert first.held_out is not None
    assert first.held_out.codes == ("superior",)
    assert first.promotion is not None
    assert result.generations[1].baseline_digest == first.promotion.to_digest
    assert second.stop is not LaneStop.PROMOTED, "there is nothing left to gain"
    assert result.confirmation is not None
    assert result.confirmation.difference > 0


@pytest.mark.parametrize(
    ("tier", "levels"), [(Tier.LOCAL, [None, None]), (Tier.PUBLISH, [0.05, 0.05])]
)
async def test_the_local_tier_keeps_the_gate_s_alpha_and_the_publish_tier_is_bounded_by_its_ledger(
    tier: Tier, levels: list[float | None]
) -> None:
    gate = SequentialGate(alpha=0.20, n_min=8, n_max=24)

    result, events = await lineage(12, 19, of=plan(generations=2, tier=tier, gate=gate))

    terms = [
        event.terms
        for event in events
        if isinstance(event, ComparisonPlanned) and event.stage == "held-out"
    ]
    assert [each.alpha_cap for each in terms if each is not None] == levels
    verdicts = [lane.held_out for lane in strategy_lanes(result)]
    assert [each.alpha for each in verdicts if each is not None] == [
        0.20 if level is None else level for level in levels
    ]


async def test_an_identical_candidate_is_never_called_an_improvement() -> None:
    result, _ = await lineage(6, 6, 6)

    assert all(lane.promotion is None for lane in strategy_lanes(result))
    assert result.last_digest == result.first_digest
    assert (result.confirmation, result.confirmation_skipped) == (None, "nothing was promoted")


async def test_a_candidate_twenty_points_worse_is_not_promoted() -> None:
    start = plan(generations=1, tree=tree_of(strategy(12)))

    result, _ = await lineage(8, of=start)

    [lane] = strategy_lanes(result)
    assert lane.stop is LaneStop.HELD_OUT_REJECTED
    assert lane.held_out is not None
    assert lane.held_out.codes[0] in ("worse", "futile")


def crashing(batch: BatchStarted, tree: ArtifactTree) -> RunEpisode:
    """The candidate breaks the simulator in half of its episodes and solves all others."""
    sound = run_everything(batch, tree)

    async def run(spec: EpisodeSpec) -> EpisodeOutcome:
        if batch.arm.label == "candidate" and spec.seed % 2:
            return batches.broke(spec, under=batch.arm)
        return await sound(spec)

    return run


async def test_a_candidate_that_crashes_half_of_its_episodes_is_stopped_by_the_canary() -> None:
    journal = MemoryJournal()
    engine = lineage_engine(plan(generations=1), journal, close_steps=(20,))
    engine = replace(engine, workshop=replace(engine.workshop, episodes=crashing))

    [lane] = strategy_lanes(await engine.run())

    assert lane.stop is LaneStop.CANARY_FAILED
    assert "broke in 2 of 4 pairs (provider)" in lane.reason


class _Nonsense:
    """An author whose answers are harmless and change nothing that matters."""

    name = "nonsense"

    async def propose(self, evidence: TrainingEvidence, *, bench: Workbench) -> Proposal:
        [in_use] = evidence.tree.of(ArtifactKind.GRASP_STRATEGY)
        name = f"grip.nonsense.{evidence.generation}"
        return Proposal(
            candidate=Candidate(
                artifact=strategy(6, revision=2, name=name),
                supersedes=in_use.name,
                parent_digest=evidence.tree.content_digest,
                origin="author:nonsense",
            ),
            reason="proposed",
        )


def staffed(
    journal: Journal, *, generations: int, author: Author, reviewer: Reviewer | None = None
) -> GenerationEngine:
    engine = lineage_engine(plan(generations=generations, held_out=6000), journal, close_steps=())
    staff = replace(engine.staff, authors={ArtifactKind.GRASP_STRATEGY: author})
    if reviewer is not None:
        staff = replace(staff, reviewer=reviewer)
    return replace(engine, staff=staff)


async def test_ten_generations_of_nonsense_get_nothing_promoted() -> None:
    result = await staffed(MemoryJournal(), generations=10, author=_Nonsense()).run()

    lanes = strategy_lanes(result)
    assert len(lanes) == 10
    assert all(lane.promotion is None and lane.held_out is not None for lane in lanes)


class _Breaking:
    async def review(self, candidate: object, *, evidence: object) -> Review:
        return Review(
            decision=ReviewDecision.APPROVE, reason="it broke", reviewer="breaking", failed=True
        )


async def test_a_reviewer_that_breaks_has_rejected_whatever_it_says() -> None:
    journal = MemoryJournal()

    result = await staffed(journal, generations=1, author=_Nonsense(), reviewer=_Breaking()).run()

    [lane] = strategy_lanes(result)
    assert lane.stop is LaneStop.REVIEW_BLOCKED
    assert lane.canary is None


async def test_held_out_episodes_are_fresh_in_every_comparison_and_never_trained_on() -> None:
    _, events = await lineage(7, 8, 9)
    seeds: dict[str, set[int]] = {}
    for event in events:
        if isinstance(event, BatchStarted):
            stage = event.phase.rsplit("-", 1)[0] if "-" in event.phase else event.phase
            seeds.setdefault(f"{event.generation}-{stage}", set()).update(
                spec.seed for spec in event.manifest.episodes
            )

    held_out = [found for name, found in seeds.items() if "held-out" in name]
    assert len(held_out) == 3
    assert not held_out[0] & held_out[1] | held_out[1] & held_out[2] | held_out[0] & held_out[2]
    assert not any(found & seeds["0-train"] for found in held_out)


async def test_the_confirmation_sees_no_episode_that_a_gate_has_seen() -> None:
    # A size at which shares as small as the confirmation's would lie in those of generation 1.
    planned = plan(generations=3, gate=SequentialGate(n_min=8, n_max=33))
    _, events = await lineage(12, 16, 19, of=planned)

    ended = [each for each in events if isinstance(each, ComparisonEnded)]
    seeds: dict[str, set[int]] = {}
    for event in ended:
        seeds.setdefault(event.stage, set()).update(pair.key.seed for pair in event.pairs)
    assert seeds["confirmation"]
    assert not seeds["confirmation"] & seeds["held-out"]
    started = [each for each in events if isinstance(each, BatchStarted)]
    drawn = [
        {spec.seed for spec in each.manifest.episodes}
        for each in started
        if "held-out" in each.phase or "confirmation" in each.phase
    ]
    assert not drawn[-1] & set().union(*drawn[:-2]), "reserves included"


async def test_both_arms_of_a_canary_are_run_afresh_in_every_generation() -> None:
    _, events = await lineage(7, 8)
    runs = [
        (event.outcome.arm_digest, event.outcome.spec_digest)
        for event in events
        if isinstance(event, EpisodeEnded)
    ]

    assert len(runs) == len(set(runs)), "nothing is run twice, nothing is taken from another use"


class _KilledError(Exception):
    pass


class _DiesAt(MemoryJournal):
    """A process that is killed at its n-th fact; what was written before stays."""

    def __init__(self, kept: Sequence[Event]) -> None:
        super().__init__()
        for event in kept:
            super().append(event)
        self.left: int | None = None

    def append(self, event: Event) -> int:
        if self.left == 0:
            raise _KilledError
        if self.left is not None:
            self.left -= 1
        return super().append(event)


def essence(result: ExperimentResult) -> object:
    """Everything a lineage decided, without what the clock or the order of workers changes."""
    return [
        (
            generation.baseline_digest,
            generation.next_baseline_digest,
            [
                (
                    lane.stop,
                    lane.candidate,
                    lane.canary,
                    lane.promotion,
                    None
                    if lane.held_out is None
                    else (lane.held_out.codes, lane.held_out.p_value, lane.held_out.effect),
                )
                for lane in generation.lanes
            ],
        )
        for generation in result.generations
    ], result.confirmation


async def test_thirty_interruptions_at_random_change_nothing_in_what_is_decided() -> None:
    proposed = (9, 19, 20)
    whole, events = await lineage(*proposed)
    draw = random.Random(20261201)
    kept: list[Event] = []
    interruptions = 0
    finished: ExperimentResult | None = None
    while finished is None:
        journal = _DiesAt(kept)
        engine = lineage_engine(plan(generations=3), journal, close_steps=proposed)
        if interruptions < 30:
            journal.left = draw.randrange(1, max(2, len(events) // 16))
        try:
            finished = await engine.run()
        except (_KilledError, ExceptionGroup):
            interruptions += 1
        kept = [event for _, event in journal.events()]

    ended = [
        (event.outcome.arm_digest, event.outcome.spec_digest)
        for event in kept
        if isinstance(event, EpisodeEnded)
    ]
    assert interruptions >= 10
    assert essence(finished) == essence(whole)
    assert len(ended) == len(set(ended)), "no finished episode was run again"


async def test_a_lineage_on_disk_is_found_again_by_another_process(tmp_path: Path) -> None:
    first = SqliteJournal(tmp_path / "journal.sqlite")
    before = await lineage_engine(plan(generations=2), first, close_steps=(19, 19)).run()
    first.close()
    count = len(list(SqliteJournal(tmp_path / "journal.sqlite", read_only=True).events()))

    second = SqliteJournal(tmp_path / "journal.sqlite")
    after = await lineage_engine(plan(generations=2), second, close_steps=(19, 19)).run()
    episodes = [event for _, event in second.events(after=count) if isinstance(event, EpisodeEnded)]
    second.close()

    assert essence(after) == essence(before)
    assert episodes == []


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"tree": tree_of(strategy(7))}, "baseline: "),
        ({"design": {"gate": {"alpha": 0.2}}}, "gate.alpha: 0.05 became 0.2"),
        (
            {"behaviour": {"planner": {"model": "other"}}},
            "planner.model: 'scripted-planner' became",
        ),
    ],
)
async def test_what_an_experiment_began_with_is_known_even_if_its_folder_was_deleted(
    changes: Mapping[str, object], difference: str
) -> None:
    journal = MemoryJournal()
    planned = replace(plan(generations=1), design={"gate": {"alpha": 0.05}})
    await lineage_engine(planned, journal, close_steps=[16]).run()
    changed = replace(planned, **changes)  # type: ignore[arg-type]

    with pytest.raises(SettingsError, match="has begun with other settings") as caught:
        await lineage_engine(changed, journal, close_steps=[16]).run()

    assert len(caught.value.problems) == 2
    assert difference in caught.value.problems[1]
    await lineage_engine(planned, journal, close_steps=[16]).run()


def test_a_gate_that_cannot_decide_is_no_gate() -> None:
    with pytest.raises(ValueError, match="cannot decide"):
        SequentialGate(n_min=20, n_max=6)


async def test_an_agent_is_compared_with_itself_first_where_that_is_asked_for() -> None:
    result, events = await lineage(19, of=replace(plan(generations=1), flakiness_pairs=12))

    ended = [event for event in events if isinstance(event, ComparisonEnded)]
    assert [event.stage for event in ended] == ["a-a", "canary", "held-out", "confirmation"]
    flakiness = ended[0].flakiness
    assert flakiness is not None
    assert (flakiness.pairs, flakiness.discordance, flakiness.alarm) == (12, 0.0, False)
    [lane] = strategy_lanes(result)
    assert lane.held_out is not None
    assert lane.held_out.flakiness == flakiness

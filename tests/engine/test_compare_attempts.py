"""What a paired comparison makes of attempts that broke, and of what ended before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import BatchStarted, EpisodeEnded
from openeta_exp.domain.gate import FixedGate, Guardrails, SequentialGate, Terms
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.money import Prices
from openeta_exp.domain.pair import Side
from openeta_exp.domain.schedule import Schedule, ScheduledPair
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.compare import ComparisonPlan, Rule, run_comparison
from openeta_exp.engine.observe_arm import pair_key
from openeta_exp.engine.progress import NoProgress
from openeta_exp.engine.rules import EstimateRule, GateRule
from tests import batches
from tests.generations import episodes
from tests.manual_clock import ManualClock

pytestmark = pytest.mark.anyio

MANIFEST = episodes(60, first_seed=0)
GATE = GateRule(gate=SequentialGate(), terms=Terms())
Runs = Callable[[Side, EpisodeSpec, int], EpisodeOutcome]
"""How attempt number so many (from 1) of an episode of an arm ends."""


class _Killed(BaseException):
    pass


def arm_of(side: Side) -> BatchStarted:
    arm = batches.arm(side.value, tree="a" if side is Side.BASELINE else "b")
    return batches.started(MANIFEST).model_copy(update={"batch_id": side.value, "arm": arm})


def won(side: Side, spec: EpisodeSpec) -> EpisodeResult:
    return _alike(batches.won(spec, under=arm_of(side).arm))


def lost(side: Side, spec: EpisodeSpec) -> EpisodeResult:
    return _alike(batches.lost(spec, under=arm_of(side).arm))


def broke(side: Side, spec: EpisodeSpec) -> EpisodeOutcome:
    failure = batches.broke(spec, under=arm_of(side).arm)
    return failure.model_copy(update={"usage": batches.usage(0)})


def _alike(outcome: EpisodeResult) -> EpisodeResult:
    return outcome.model_copy(update={"usage": batches.usage(0)})


class Comparing:
    """A comparison that may be killed and started again by the same command."""

    def __init__(self, runs: Runs, *, rule: Rule[GateVerdict] = GATE, attempts: int = 3) -> None:
        self.journal = MemoryJournal()
        self._runs = runs
        self._rule = rule
        self._attempts = attempts
        self._tries: dict[tuple[Side, int], int] = {}

    async def go(self, *, killed_at: int | None = None) -> GateVerdict:
        async def run_arm(side: Side, spec: EpisodeSpec) -> EpisodeOutcome:
            if killed_at == spec.seed and side is Side.BASELINE:
                raise _Killed
            attempt = self._tries[side, spec.seed] = self._tries.get((side, spec.seed), 0) + 1
            return self._runs(side, spec, attempt)

        run = await run_comparison(
            ComparisonPlan(
                comparison_id="comparison",
                arms={side: arm_of(side) for side in Side},
                schedule=Schedule(
                    slots=tuple(
                        ScheduledPair(key=pair_key(spec), first=Side.BASELINE)
                        for spec in MANIFEST.episodes
                    )
                ),
                specs={pair_key(spec): spec for spec in MANIFEST.episodes},
                pins={},
                prices=Prices(input_usd=1.0, output_usd=1.0),
                concurrency=1,
                attempts=self._attempts,
                own_runs=True,
            ),
            rule=self._rule,
            run_arm=run_arm,
            observers=Observers(
                journal=self.journal,
                tracker=NullTracker(),
                progress=NoProgress(),
                clock=ManualClock(),
            ),
        )
        return run.answer


def breaks_rather_than_loses(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
    """Both arms solve every second attempt; the candidate's others break."""
    if side is Side.BASELINE:
        return won(side, spec) if spec.seed % 2 else lost(side, spec)
    return won(side, spec) if (spec.seed // 2 + attempt) % 2 else broke(side, spec)


def breaks_once(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
    if side is Side.CANDIDATE and attempt == 1:
        return broke(side, spec)
    return won(side, spec) if side is Side.CANDIDATE or spec.seed % 2 else lost(side, spec)


def breaks_for_good_now_and_then(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
    if side is Side.CANDIDATE and spec.seed % 4 == 1 and attempt <= 3:
        return broke(side, spec)
    return won(side, spec) if side is Side.CANDIDATE or spec.seed % 3 else lost(side, spec)


async def test_a_candidate_that_breaks_when_it_would_lose_gains_nothing_by_further_attempts() -> (
    None
):
    verdict = await Comparing(breaks_rather_than_loses).go()

    assert verdict.effect.wins > verdict.effect.losses + 9
    assert verdict.exclusions.broken == 0
    assert "differential_exclusion" in verdict.codes
    assert not verdict.promotes


async def test_an_arm_that_breaks_as_often_as_the_other_is_not_accused() -> None:
    def both_break_once(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
        if attempt == 1 and spec.seed % 2:
            return broke(side, spec)
        return won(side, spec) if side is Side.CANDIDATE or spec.seed % 3 == 0 else lost(side, spec)

    verdict = await Comparing(both_break_once).go()

    assert (verdict.exclusions.candidate_breaks, verdict.exclusions.baseline_breaks) == (0, 0)
    assert verdict.promotes


@pytest.mark.parametrize("runs", [breaks_once, breaks_for_good_now_and_then])
@pytest.mark.parametrize("killed_at", [7, 19])
async def test_an_interrupted_comparison_ends_as_an_undisturbed_one(
    runs: Runs, killed_at: int
) -> None:
    undisturbed = await Comparing(runs).go()
    interrupted = Comparing(runs)

    with pytest.raises(BaseExceptionGroup):
        await interrupted.go(killed_at=killed_at)

    assert await interrupted.go() == undisturbed
    assert not undisturbed.promotes


async def test_what_another_batch_ran_under_the_same_arm_is_no_part_of_a_comparison() -> None:
    def runs(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
        return won(side, spec) if spec.seed % 2 else lost(side, spec)

    comparing = Comparing(runs)
    for spec in MANIFEST.episodes:
        comparing.journal.append(batches.ended(lost(Side.BASELINE, spec), batch_id="a bad day"))

    verdict = await comparing.go()

    assert verdict == await Comparing(runs).go()
    own = [
        event
        for _, event in comparing.journal.events()
        if isinstance(event, EpisodeEnded) and event.batch_id == Side.BASELINE
    ]
    assert len(own) == verdict.effect.pairs


async def test_a_collision_stops_the_candidate_also_if_the_episode_broke_after_it() -> None:
    def collides(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
        if side is Side.CANDIDATE and spec.seed == 5 and attempt == 1:
            crash = broke(side, spec)
            return crash.model_copy(update={"violations": ("safety.collision",)})
        return won(side, spec) if side is Side.CANDIDATE or spec.seed % 2 else lost(side, spec)

    verdict = await Comparing(collides).go()

    assert verdict.codes == ("safety",)


async def test_an_estimate_is_made_of_every_pair_whatever_happens_on_the_way() -> None:
    def collides(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
        outcome = won(side, spec) if spec.seed % 2 else lost(side, spec)
        if side is Side.CANDIDATE and spec.seed == 2:
            return outcome.model_copy(update={"violations": ("safety.collision",)})
        return outcome

    gate = FixedGate(pairs=60, n_min=1, min_tasks=1, guardrails=Guardrails())
    verdict = await Comparing(collides, rule=EstimateRule(gate=gate, terms=Terms())).go()

    assert verdict.effect.pairs == 60
    assert verdict.codes == ("safety",)


async def test_arms_that_began_in_different_states_are_told_and_count_all_the_same() -> None:
    def elsewhere(side: Side, spec: EpisodeSpec, attempt: int) -> EpisodeOutcome:
        outcome = won(side, spec) if side is Side.CANDIDATE or spec.seed % 2 else lost(side, spec)
        where = side.value if spec.seed % 2 else "here"
        return outcome.model_copy(update={"initial_state_digest": where})

    verdict = await Comparing(elsewhere).go()

    assert verdict.promotes
    assert verdict.unequal_starts == verdict.effect.pairs // 2
    assert "began in different states" in verdict.sentence()

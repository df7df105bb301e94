"""Run a paired comparison until its gate stops it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

import anyio

from openeta_exp.domain.comparison import PairedComparison
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import BatchStarted
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.money import Prices
from openeta_exp.domain.pair import ArmObservation, PairKey, PairObservation, Side
from openeta_exp.domain.schedule import Schedule, ScheduledPair
from openeta_exp.engine.batch import Observers, ended_batch, run_attempt
from openeta_exp.engine.calls import CountCalls, CountedCalls
from openeta_exp.engine.dispatch import Dispatch
from openeta_exp.engine.observe_arm import ENVIRONMENT_PINS, observe_arm, pair_key
from openeta_exp.engine.pair_ledger import PairLedger
from openeta_exp.errors import StoreError

Answer = TypeVar("Answer")
Verdict = TypeVar("Verdict", covariant=True)
RunArm = Callable[[Side, EpisodeSpec], Awaitable[EpisodeOutcome]]

MAX_ATTEMPTS = 3
_LOOKS_APART = 50
"""A look goes through all pairs so far, so there is at most one for every fiftieth part of them."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """There is no answer yet.

    Attributes:
        next_look: Valid pairs at which there can be one; None if only the end brings it.
    """

    next_look: int | None


class Rule(Protocol[Verdict]):
    """Looks at the longest complete prefix of a comparison; a pure function of it.

    Asked again with the same or a longer prefix it gives the same answer, so that a look which
    comes late costs some pairs and changes no verdict.
    """

    def __call__(self, comparison: PairedComparison, *, over: bool) -> Verdict | GoOn:
        """The answer, or when to ask again.

        Args:
            over: No further pair will come. There is an answer then.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonPlan:
    """Two arms and the pairs that will decide between them, fixed before the first one runs.

    Attributes:
        arms: One batch per side: its arm, its label, its phase.
        specs: What to run for each scheduled key, reserves included.
        pins: What must not change under way: versions of simulator, harness and models.
        environment_pins: The same, for what the environment says of itself in every outcome.
        attempts: Runs of one episode of one arm before its pair is given up and replaced.
        fresh: Sides that run again what has a verdict already.
        own_runs: What has ended before counts with all its attempts, and only if it is this
            comparison's own. Otherwise the last verdict of an arm counts, whatever brought it.
        any_order: Every pair is run, so environments may be kept as long as they are of use, and
            an interrupted comparison counts whatever has ended.
    """

    comparison_id: str
    arms: Mapping[Side, BatchStarted]
    schedule: Schedule
    specs: Mapping[PairKey, EpisodeSpec]
    pins: Mapping[str, str]
    prices: Prices
    concurrency: int
    environment_pins: tuple[str, ...] = ENVIRONMENT_PINS
    attempts: int = MAX_ATTEMPTS
    fresh: frozenset[Side] = frozenset()
    own_runs: bool = False
    any_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRun(Generic[Answer]):
    """What a comparison came to."""

    comparison: PairedComparison
    answer: Answer
    duration_s: float


async def run_comparison(
    plan: ComparisonPlan,
    *,
    rule: Rule[Answer],
    run_arm: RunArm,
    observers: Observers,
    may_go_on: Callable[[], bool] = lambda: True,
    calls: Mapping[Side, CountCalls] | None = None,
) -> ComparisonRun[Answer]:
    """Run pairs in schedule order until the rule has an answer.

    What has ended according to the journal is not run again, and the verdict is a function of the
    schedule's longest complete prefix alone, so an interrupted comparison ends as it would have
    ended: with `own_runs`, broken attempts of before count towards cost and limit as well.

    Args:
        may_go_on: False once no further pair is to be started.
        calls: Counts each arm's model calls, if the arms do not share the observers' provider.

    Raises:
        StoreError: An outcome could not be kept.
    """
    begun_s = observers.clock.monotonic_s()
    both = observers.calls()
    by_side = {side: (observers.calls if calls is None else calls[side])() for side in Side}
    pairs = _PairRunner(
        plan,
        rule=rule,
        run_arm=run_arm,
        observers=observers,
        may_go_on=may_go_on,
        calls=by_side,
    )
    reused = pairs.reuse()
    for side in Side:
        observers.tell(plan.arms[side])
    observers.progress.batch_started(
        plan.arms[Side.CANDIDATE],
        already_done=reused,
        episodes=len(Side) * len(plan.schedule.slots),
        calls=both.metrics,
    )
    completed = False
    try:
        with both.inside():
            answer = await pairs.until_answer()
        completed = True
    finally:
        for side in Side:
            over = ended_batch(
                plan.arms[side],
                begun_s=begun_s,
                clock=observers.clock,
                interrupted=not completed,
                provider=by_side[side].metrics(),
            )
            try:
                observers.tell(over)
            except StoreError:
                # The reason of the interruption matters more than its last line.
                if completed:
                    raise
        observers.progress.batch_ended(interrupted=not completed)
    return ComparisonRun(
        comparison=pairs.so_far(),
        answer=answer,
        duration_s=observers.clock.monotonic_s() - begun_s,
    )


@dataclass(slots=True)
class _PairRunner(Generic[Answer]):
    """Hands pairs to workers and looks at the prefix after each."""

    plan: ComparisonPlan
    rule: Rule[Answer] = field(kw_only=True)
    run_arm: RunArm = field(kw_only=True)
    observers: Observers = field(kw_only=True)
    may_go_on: Callable[[], bool] = field(kw_only=True)
    calls: Mapping[Side, CountedCalls] = field(kw_only=True)
    ledger: PairLedger = field(init=False)
    _earlier: dict[tuple[Side, PairKey], list[EpisodeOutcome]] = field(
        init=False, default_factory=dict
    )
    _first: PairObservation | None = field(init=False, default=None)
    _next_look: int | None = field(init=False, default=None)
    _answer: Answer | None = field(init=False, default=None)
    _dispatch: Dispatch = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = PairLedger(self.plan.schedule)

    def reuse(self) -> int:
        """Take what is settled from before: whole pairs now, single sides when they are due.

        Returns how many episodes that are.
        """
        for side in set(Side) - self.plan.fresh:
            recorded = self._recorded(self.plan.arms[side])
            for key, spec in self.plan.specs.items():
                attempts = recorded.get((spec.content_digest, spec.repeat))
                if attempts:
                    self._earlier[side, key] = attempts
        for key, spec in self.plan.specs.items():
            outcomes = {side: self._earlier.get((side, key), []) for side in Side}
            if all(map(self._is_settled, outcomes.values())):
                grown = self.ledger.add(self._pair(spec, outcomes))
                self._first = self._first or next(iter(grown), None)
        # Also without a pair: some comparisons cannot be answered however many follow.
        self._look(over=False)
        slots = self.plan.schedule.slots
        self._dispatch = Dispatch(
            self.plan.specs[slot.key] for slot in slots if not self.ledger.has(slot.key)
        )
        return sum(map(self._is_settled, self._earlier.values()))

    def _recorded(self, batch: BatchStarted) -> Mapping[tuple[Digest, int], list[EpisodeOutcome]]:
        """What has ended before and counts, by (episode digest, repeat index)."""
        journal, arm = self.observers.journal, batch.arm.content_digest
        if not self.plan.own_runs:
            return {key: [outcome] for key, outcome in journal.outcomes(arm).items()}
        return {
            key: [outcome for outcome in attempts if outcome.arm_digest == arm]
            for key, attempts in journal.attempts(batch.batch_id).items()
        }

    def _is_settled(self, attempts: Sequence[EpisodeOutcome]) -> bool:
        """Whether an episode has a verdict, or was given up."""
        if not attempts:
            return False
        broke = isinstance(attempts[-1], EpisodeFailure)
        return not broke or len(attempts) >= self.plan.attempts

    def so_far(self) -> PairedComparison:
        return self.ledger.comparison(gaps=self.plan.any_order)

    async def until_answer(self) -> Answer:
        if self._answer is None:
            async with anyio.create_task_group() as group:
                for _ in range(self.plan.concurrency):
                    group.start_soon(self._work, group.cancel_scope)
        if self._answer is None:
            self._look(over=True)
        assert self._answer is not None, "a rule answers when nothing more will come"
        return self._answer

    async def _work(self, scope: anyio.CancelScope) -> None:
        last_env_id: str | None = None
        while (pair := self._next(last_env_id)) is not None:
            last_env_id = pair.key.env_id
            self.ledger.begin(pair.key)
            observation = await self._run(pair)
            self._look_if_due(self.ledger.add(observation))
            if self._answer is not None:
                # Pairs in flight can no longer change the answer; their money is saved.
                scope.cancel()
                return

    def _next(self, last_env_id: str | None) -> ScheduledPair | None:
        if self._answer is not None or not self.may_go_on():
            return None
        if not self.plan.any_order:
            return self.ledger.next()
        spec = self._dispatch.next(last_env_id)
        return None if spec is None else self.ledger.slot(pair_key(spec))

    def _look_if_due(self, grown: Sequence[PairObservation]) -> None:
        """Look where the rule can answer, and at once where a pair is out of the ordinary."""
        if not grown:
            return
        self._first = self._first or grown[0]
        valid = self.ledger.valid_pairs
        due = self._next_look is not None and valid >= self._next_look
        if due or any(_is_remarkable(each, self._first) for each in grown):
            self._look(over=False)

    def _look(self, *, over: bool) -> None:
        answer = self.rule(self.so_far(), over=over)
        if not isinstance(answer, GoOn):
            self._answer = answer
        elif answer.next_look is None:
            self._next_look = None
        else:
            valid = self.ledger.valid_pairs
            self._next_look = max(answer.next_look, valid + valid // _LOOKS_APART)

    async def _run(self, pair: ScheduledPair) -> PairObservation:
        """Both arms back to back on the same key, in the order that was drawn for it."""
        spec = self.plan.specs[pair.key]
        second = Side.CANDIDATE if pair.first is Side.BASELINE else Side.BASELINE
        attempts = {side: await self._attempts(side, spec) for side in (pair.first, second)}
        return self._pair(spec, attempts)

    async def _attempts(self, side: Side, spec: EpisodeSpec) -> list[EpisodeOutcome]:
        """Run one arm; what broke is tried again, and every try is kept and paid for."""
        batch = self.plan.arms[side]
        outcomes = [*self._earlier.get((side, pair_key(spec)), ())]
        while not self._is_settled(outcomes):
            with self.calls[side].inside():
                outcome = await run_attempt(
                    spec,
                    batch_id=batch.batch_id,
                    run_episode=partial(self.run_arm, side),
                    observers=self.observers,
                )
            outcomes.append(outcome)
        return outcomes

    def _pair(
        self, spec: EpisodeSpec, attempts: Mapping[Side, list[EpisodeOutcome]]
    ) -> PairObservation:
        seen: dict[Side, ArmObservation] = {
            side: observe_arm(
                spec,
                attempts[side],
                arm=self.plan.arms[side].arm,
                pins=self.plan.pins,
                prices=self.plan.prices,
                environment_pins=self.plan.environment_pins,
            )
            for side in Side
        }
        return PairObservation(baseline=seen[Side.BASELINE], candidate=seen[Side.CANDIDATE])


def _is_remarkable(pair: PairObservation, first: PairObservation) -> bool:
    """Whether a rule may have to stop for this pair, whatever the others say."""
    return (
        not pair.valid
        or pair.candidate.safety_violations > 0
        or pair.candidate.contract_violations > 0
        or any(pair.arm(side).fingerprint != first.arm(side).fingerprint for side in Side)
    )

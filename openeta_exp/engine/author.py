"""What an author may try out while it writes: train episodes and model answers, within bounds."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from pydantic import JsonValue

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import AuthorReply, Effort
from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import (
    AuthorAnswered,
    BatchStarted,
)
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.domain.model import ModelRequest, TokenUsage
from openeta_exp.domain.money import Tokens
from openeta_exp.domain.record import digest
from openeta_exp.engine.batch import RunEpisode, ended_batch, run_attempt
from openeta_exp.engine.compare import MAX_ATTEMPTS
from openeta_exp.engine.dispatch import Dispatch
from openeta_exp.engine.lane import Workshop
from openeta_exp.engine.lineage import AUTHORING
from openeta_exp.errors import ProviderReplyError, StoreError
from openeta_exp.ports.provider import Provider

_DIGEST = 8

_Run = tuple[Digest, Digest, int]
"""Arm, episode and repeat index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The most that one proposal may take; the caps of the experiment hold besides.

    Attributes:
        episodes: Train episodes with an outcome, broken ones included.
        usd: Price of these and of the author's own model; None, or a price that is not known,
            leaves only the episodes. Nothing is started once it is reached.
    """

    episodes: int = 0
    usd: float | None = None


NOTHING = Allowance()


class AuthorBench:
    """See `ports.author.Workbench`; one lane's, in one generation."""

    def __init__(
        self, workshop: Workshop, *, generation: int, kind: ArtifactKind, allowance: Allowance
    ) -> None:
        self._workshop = workshop
        self._generation = generation
        self._kind = kind
        self._allowance = allowance
        self._train = {str(spec.episode_id): spec for spec in workshop.plan.train.episodes}
        self._replies = list(workshop.lineage.replies.get((generation, kind), ()))
        self._asked: Counter[Digest] = Counter()
        self._attempts: dict[_Run, list[EpisodeOutcome]] = {}
        self._wanted: set[_Run] = set()
        self._in_flight = 0
        for batch_id, outcomes in workshop.lineage.authoring.items():
            if batch_id.startswith(workshop.plan.batch_id(generation, self._phase)):
                for outcome in outcomes:
                    self._keep(outcome)

    @property
    def episodes_left(self) -> int:
        # By the steps taken so far: a restarted author then decides what it decided before.
        used = sum(len(self._attempts.get(run, ())) for run in self._wanted)
        return self._allowance.episodes - used

    def effort(self, usage: TokenUsage) -> Effort:
        """What was used.

        Args:
            usage: Of answers that were not asked for here.
        """
        tokens = usage + self._tokens()
        return Effort(
            episodes=self._episodes(),
            tokens=tokens,
            usd=self._workshop.plan.prices.of(Tokens.of(tokens)),
        )

    async def run(
        self, tree: ArtifactTree, episode_ids: Sequence[str]
    ) -> tuple[EpisodeOutcome, ...] | None:
        specs = [self._train[each] for each in episode_ids]
        arm = self._workshop.plan.arm("author", tree).content_digest
        runs = {(arm, spec.content_digest, spec.repeat): spec for spec in specs}
        known = {
            (arm, *of): outcome
            for of, outcome in self._workshop.observers.journal.outcomes(arm).items()
        }
        # A verdict from elsewhere, such as the train batch's, was not run for the author.
        self._wanted |= runs.keys()
        todo = {
            run: spec
            for run, spec in runs.items()
            if run not in known and len(self._attempts.get(run, ())) < MAX_ATTEMPTS
        }
        if todo:
            fresh = sum(run not in self._attempts for run in todo)
            if self._episodes() + fresh > self._allowance.episodes:
                return None
            await self._work(tree, todo)
        found = [
            known.get((arm, spec.content_digest, spec.repeat))
            or self._last((arm, spec.content_digest, spec.repeat))
            for spec in specs
        ]
        outcomes = tuple(each for each in found if each is not None)
        return outcomes if len(outcomes) == len(specs) else None

    async def ask(self, request: ModelRequest, *, provider: Provider) -> AuthorReply | None:
        key = _digest(request)
        answered = [reply for of, reply in self._replies if of == key]
        self._asked[key] += 1
        if self._asked[key] <= len(answered):
            return answered[self._asked[key] - 1]
        if not self._may_pay():
            return None
        try:
            whole = await provider.complete(request)
            reply = AuthorReply(text=whole.text, usage=whole.usage)
        except ProviderReplyError as error:
            usage = TokenUsage.charged_by(error)
            reply = AuthorReply(text="", problem=str(error), usage=usage)
        self._workshop.lineage.tell(
            AuthorAnswered(
                experiment_id=self._workshop.plan.experiment_id,
                generation=self._generation,
                lane=self._kind,
                request_digest=key,
                reply=reply,
                at_s=self._workshop.observers.clock.unix_s(),
            )
        )
        self._replies.append((key, reply))
        return reply

    async def _work(self, tree: ArtifactTree, todo: dict[_Run, EpisodeSpec]) -> None:
        observers, lineage = self._workshop.observers, self._workshop.lineage
        begun_s, calls = observers.clock.monotonic_s(), observers.calls()
        batch = self._batch(tree)
        runs = {spec.content_digest: run for run, spec in todo.items()}
        lineage.tell(batch)
        observers.progress.batch_started(
            batch,
            already_done=len(batch.manifest.episodes) - len(todo),
            calls=calls.metrics,
        )
        run_episode = self._workshop.episodes(batch, tree)
        dispatch = Dispatch(todo.values())
        completed = False

        async def worker() -> None:
            last_env_id: str | None = None
            while self._may_start() and (spec := dispatch.next(last_env_id)) is not None:
                last_env_id = spec.env_id
                await self._attempt(runs[spec.content_digest], spec, batch, run_episode)

        try:
            with calls.inside():
                async with anyio.create_task_group() as group:
                    for _ in range(min(batch.concurrency, len(todo))):
                        group.start_soon(worker)
            completed = True
        finally:
            over = ended_batch(
                batch,
                begun_s=begun_s,
                clock=observers.clock,
                interrupted=not completed,
                provider=calls.metrics(),
            )
            with contextlib.nullcontext() if completed else contextlib.suppress(StoreError):
                lineage.tell(over)
            observers.progress.batch_ended(interrupted=not completed)

    async def _attempt(
        self, run: _Run, spec: EpisodeSpec, batch: BatchStarted, run_episode: RunEpisode
    ) -> None:
        """Run an episode, and again if it breaks, as often as there are attempts left for it."""
        while self._last(run) is None and self._may_start():
            self._in_flight += 1
            try:
                outcome = await run_attempt(
                    spec,
                    batch_id=batch.batch_id,
                    run_episode=run_episode,
                    observers=self._workshop.observers,
                    tell=self._workshop.lineage.tell,
                )
                self._keep(outcome)
            finally:
                self._in_flight -= 1

    def _batch(self, tree: ArtifactTree) -> BatchStarted:
        """Everything that was asked for under this tree so far."""
        plan, clock = self._workshop.plan, self._workshop.observers.clock
        arm = plan.arm("author", tree).content_digest
        return plan.batch(
            f"{self._phase}{tree.content_digest[:_DIGEST]}{AUTHORING}",
            label="author",
            generation=self._generation,
            tree=tree,
            manifest=Manifest(
                episodes=tuple(
                    spec
                    for spec in plan.train.episodes
                    if (arm, spec.content_digest, spec.repeat) in self._wanted
                ),
                split=plan.train.split,
            ),
            at_s=clock.unix_s(),
        )

    @property
    def _phase(self) -> str:
        """What the phases of this lane's batches begin with."""
        return f"{self._kind.value.replace('_', '-')}-"

    def _keep(self, outcome: EpisodeOutcome) -> None:
        run = (outcome.arm_digest, outcome.spec_digest, outcome.repeat)
        self._attempts.setdefault(run, []).append(outcome)

    def _last(self, run: _Run) -> EpisodeOutcome | None:
        """What an episode came to: its verdict, or its failure once nothing more is tried."""
        attempts = self._attempts.get(run, [])
        over = len(attempts) >= MAX_ATTEMPTS or any(isinstance(e, EpisodeResult) for e in attempts)
        return attempts[-1] if over else None

    def _episodes(self) -> int:
        return sum(map(len, self._attempts.values()))

    def _tokens(self) -> TokenUsage:
        total = TokenUsage()
        for attempts in self._attempts.values():
            for outcome in attempts:
                total += outcome.usage.tokens
        for _, reply in self._replies:
            total += reply.usage
        return total

    def _may_start(self) -> bool:
        return self._episodes() + self._in_flight < self._allowance.episodes and self._may_pay()

    def _may_pay(self) -> bool:
        spent = self._workshop.plan.prices.of(Tokens.of(self._tokens()))
        return self._allowance.usd is None or spent is None or spent < self._allowance.usd


def _digest(request: ModelRequest) -> Digest:
    """Of everything that is asked, images aside: authors show none."""
    said: list[JsonValue] = [[each.role, each.text] for each in request.messages]
    return Digest(digest([request.role.value, request.max_output_tokens, *said]))

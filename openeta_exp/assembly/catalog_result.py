"""Episodes of policies -> checks on them, and the result with all its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from openeta_exp.adapters.store.layout import ComparisonLayout
from openeta_exp.assembly.catalog_replay import replay_command
from openeta_exp.catalog.breakdown import Breakdown
from openeta_exp.catalog.checks_outcomes import check_outcomes
from openeta_exp.catalog.comparison_tables import flipped_episodes, heat_maps, parameter_rows
from openeta_exp.catalog.expansion import Expansion
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import EpisodeEnded, Event
from openeta_exp.domain.finding import CheckVerdict, Finding
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.policy_comparison import Contrast, TaskContrast
from openeta_exp.engine.policy_compare import ComparedContestant, Contestant
from openeta_exp.engine.policy_compare_verdict import Judged
from openeta_exp.ports.store import Journal
from openeta_exp.settings.experiment import ExperimentSettings

FIRST_EPISODES = 6
"""Pairs after which the outcomes are looked at, before the rest is paid for."""


class Evidence:
    """What every episode of every arm came to, from earlier runs and from this one."""

    def __init__(
        self,
        expansion: Expansion,
        contestants: Sequence[Contestant],
        journal: Journal,
        *,
        fresh: bool,
    ) -> None:
        self._labels = {
            (spec.content_digest, spec.repeat): spec.episode_id
            for spec in expansion.manifest.episodes
        }
        self._order = [spec.episode_id for spec in expansion.manifest.episodes]
        self._found: dict[Digest, dict[str, EpisodeOutcome]] = {}
        self._digests = {each.name: each.arm.content_digest for each in contestants}
        for arm in set(self._digests.values()):
            self._found[arm] = {}
            if not fresh:
                for outcome in journal.outcomes(arm).values():
                    self._keep(outcome)

    def take(self, event: Event) -> None:
        """Remember an outcome; a verdict outlasts a later breakage."""
        if isinstance(event, EpisodeEnded):
            self._keep(event.outcome)

    def _keep(self, outcome: EpisodeOutcome) -> None:
        label = self._labels.get((outcome.spec_digest, outcome.repeat))
        of_arm = self._found.get(outcome.arm_digest)
        if label is None or of_arm is None:
            return
        if isinstance(outcome, EpisodeResult) or not isinstance(of_arm.get(label), EpisodeResult):
            # The same episode may have had another label in an earlier run.
            of_arm[label] = (
                outcome
                if outcome.episode_id == label
                else outcome.model_copy(update={"episode_id": label})
            )

    def of(self, name: str) -> list[EpisodeOutcome]:
        """Of one arm, in the manifest's order."""
        found = self._found[self._digests[name]]
        return [found[label] for label in self._order if label in found]

    def shared(self, first: str, second: str) -> int:
        """Episodes that ended under both arms."""
        left, right = (self._found[self._digests[name]] for name in (first, second))
        return len(left.keys() & right.keys())


class FirstEpisodes:
    """Looks at the first pairs of every comparison, and stops one that means nothing."""

    def __init__(
        self,
        expansion: Expansion,
        evidence: Evidence,
        *,
        baseline: str,
        candidates: Iterable[str],
        hosted: Iterable[str],
        hidden: Sequence[str],
        allowed: bool,
    ) -> None:
        """
        Args:
            hosted: Arms that report the first observation; a planner does not.
            hidden: Parameters that are known to act without showing there.
            allowed: Go on all the same.
        """
        self._expansion = expansion
        self._evidence = evidence
        self._baseline = baseline
        self._waiting = list(candidates)
        self._hosted = frozenset(hosted)
        self._hidden = hidden
        self._allowed = allowed
        self.found: list[Finding] = []

    def take(self, event: Event) -> None:
        if isinstance(event, EpisodeEnded) and self._waiting:
            self.look()

    def look(self) -> None:
        """Check the candidates that have enough pairs by now, once each."""
        due = [
            name
            for name in self._waiting
            if self._evidence.shared(self._baseline, name) >= FIRST_EPISODES
        ]
        for name in due:
            self._waiting.remove(name)
            arms = {each: self._evidence.of(each) for each in (self._baseline, name)}
            hosted = {each: found for each, found in arms.items() if each in self._hosted}
            findings = check_outcomes(self._expansion, hosted, hidden=self._hidden)
            self.found += [each for each in findings if each.verdict is CheckVerdict.INVALID]

    def may_go_on(self) -> bool:
        return self._allowed or not self.found


class Breakages:
    """Gives a policy up once it only breaks: a server that is gone, weights that do not fit."""

    def __init__(self, *, limit: int, note: Callable[[str], None]) -> None:
        self._limit = limit
        self._note = note
        self._in_a_row: Counter[Digest] = Counter()
        self._told: set[str] = set()

    def take(self, event: Event) -> None:
        if isinstance(event, EpisodeEnded):
            arm = event.outcome.arm_digest
            broke = isinstance(event.outcome, EpisodeFailure)
            self._in_a_row[arm] = self._in_a_row[arm] + 1 if broke else 0

    def may_run(self, contestant: Contestant) -> bool:
        if self._in_a_row[contestant.arm.content_digest] < self._limit:
            return True
        if contestant.name not in self._told:
            self._told.add(contestant.name)
            self._note(
                f"{contestant.name} broke {self._limit} times in a row; the rest of its episodes "
                "is left for the same command, once that is repaired"
            )
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What the contrasts of a result are made from."""

    settings: ExperimentSettings
    expansion: Expansion
    evidence: Evidence
    layout: ComparisonLayout

    def contrast(self, baseline: str, candidate: str, compared: ComparedContestant) -> Contrast:
        """One policy against the first."""
        judged = compared.judged
        breakdown = Breakdown(
            self.expansion,
            baseline=self.evidence.of(baseline),
            candidate=self.evidence.of(candidate),
        )
        rows = parameter_rows(breakdown)
        return Contrast(
            comparison_id=compared.comparison_id,
            baseline=baseline,
            candidate=candidate,
            standing=judged.standing,
            reasons=judged.reasons,
            scheduled=compared.scheduled,
            missing=compared.missing,
            counts=judged.counts,
            difference=judged.difference,
            equivalence=judged.equivalence,
            better=judged.judgement.better,
            worse=judged.judgement.worse,
            tasks=tuple(self._task(each) for each in judged.by_task.values()),
            parameters=rows,
            heat_maps=heat_maps(breakdown, rows),
            flips=flipped_episodes(breakdown, replay=self._replay),
        )

    def _replay(self, episode_id: str) -> str:
        return replay_command(self.settings, episode_id, layout=self.layout)

    def _task(self, judged: Judged) -> TaskContrast:
        env_id = judged.comparison.observations[0].key.env_id
        row = next(row for row in self.expansion.rows if row.env_id == env_id)
        better, worse = judged.judgement.better, judged.judgement.worse
        return TaskContrast(
            task_id=row.task_id,
            scene_id=row.scene_id,
            instruction=self.expansion.bindings[env_id].task.instruction,
            standing=judged.standing,
            reasons=better.codes,
            counts=judged.counts,
            difference=judged.difference,
            p_better=better.p_value,
            p_worse=worse.p_value,
            alpha=better.alpha,
        )

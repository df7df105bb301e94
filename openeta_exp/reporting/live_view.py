"""How a batch goes, in a few lines, while it goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.counting import counted
from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome
from openeta_exp.domain.event import Arm, BatchStarted
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.model import ProviderMetrics
from openeta_exp.domain.stop import FailureClass
from openeta_exp.domain.summary import EpisodeStatus, status_of

_NAMED = 4
"""Running episodes that are named; the others are counted."""


class BatchView:
    """Counts of one batch as its episodes come in."""

    def __init__(
        self,
        started: BatchStarted,
        *,
        already_done: int,
        episodes: int | None = None,
        now_s: Callable[[], float],
        calls: Callable[[], ProviderMetrics | None],
    ) -> None:
        self.started = started
        self.total = len(started.manifest.episodes) if episodes is None else episodes
        self.already_done = already_done
        self._episodes: set[tuple[Digest, Digest, int]] = set()
        self._now_s = now_s
        self._begun_s = now_s()
        self._calls = calls
        self._statuses: Counter[EpisodeStatus] = Counter()
        self._failures: Counter[FailureClass] = Counter()
        self._tokens = 0
        self._running: dict[str, None] = {}

    @property
    def ended(self) -> int:
        """Episodes of this run; one that broke and is tried again is still one."""
        return len(self._episodes)

    @property
    def done(self) -> int:
        """Of all episodes, those of an earlier run included."""
        return self.already_done + self.ended

    def start(self, spec: EpisodeSpec) -> None:
        self._running[spec.episode_id] = None

    def end(self, outcome: EpisodeOutcome) -> None:
        self._running.pop(outcome.episode_id, None)
        self._episodes.add((outcome.arm_digest, outcome.spec_digest, outcome.repeat))
        # A pair that is given up is replaced by one that was not counted on.
        self.total = max(self.total, self.done)
        status = status_of(outcome)
        self._statuses[status] += 1
        if status is EpisodeStatus.FAIL:
            self._failures[outcome.failure_class] += 1
        self._tokens += outcome.usage.tokens.total_tokens

    def __rich__(self) -> RenderableType:
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=self.total, completed=self.done, width=32),
            Text(f"{self.done}/{self.total}", style="bold"),
            Text(self._times()),
        )
        lines: list[RenderableType] = [
            Text(heading(self.started), style="bold"),
            bar,
            Text(self.counts()),
            Text(self.costs()),
        ]
        if self._running:
            lines.append(Text(self._names(), style="dim"))
        return Group(*lines)

    def counts(self) -> str:
        """Outcomes of this run."""
        parts = [f"solved {self._statuses[EpisodeStatus.SUCCESS]}"]
        fails = f"failed {self._statuses[EpisodeStatus.FAIL]}"
        parts.append(fails + (f" ({by_class(self._failures)})" if self._failures else ""))
        if self._statuses[EpisodeStatus.NEED_HUMAN]:
            parts.append(f"waiting for a person {self._statuses[EpisodeStatus.NEED_HUMAN]}")
        if self.already_done:
            parts.append(f"{self.already_done} from before")
        return " · ".join(parts)

    def costs(self) -> str:
        """Tokens, and what the model endpoint is busy with."""
        tokens = counted(self._tokens, "token")
        calls = self._calls()
        return tokens if calls is None else f"{tokens} · {_calls(calls)}"

    def _times(self) -> str:
        elapsed_s = self._now_s() - self._begun_s
        running = len(self._running)
        queued = self.total - self.done - running
        text = f"running {running} · queued {queued} · {clock(elapsed_s)} elapsed"
        left = self.total - self.done
        if self.ended and left:
            text += f" · about {clock(elapsed_s / self.ended * left)} left"
        return text

    def _names(self) -> str:
        names = list(self._running)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"now: {', '.join(names[:_NAMED])}{more}"


class Named(Protocol):
    """What tells one batch from another."""

    @property
    def experiment_id(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def phase(self) -> str: ...
    @property
    def arm(self) -> Arm: ...


def heading(batch: Named) -> str:
    """Experiment, phase and arm in one line."""
    return (
        f"{batch.experiment_id} · generation {batch.generation} · {batch.phase} · "
        f"arm {batch.arm.label} {batch.arm.content_digest[:8]}"
    )


def outcome_line(outcome: EpisodeOutcome) -> str:
    """One ended episode in one line."""
    used = outcome.usage
    cost = (
        f"{counted(used.turns, 'turn')}, {used.duration_s:.1f} s, "
        f"{counted(used.tokens.total_tokens, 'token')}"
    )
    match outcome:
        case EpisodeFailure(failure_class=kind, code=code, message=message):
            return f"{outcome.episode_id}: failed ({kind}: {code}) after {cost}: {message}"
        case _ if status_of(outcome) is EpisodeStatus.FAIL:
            return (
                f"{outcome.episode_id}: failed ({outcome.failure_class}: {outcome.stop_reason}) "
                f"after {cost}"
            )
        case _ if status_of(outcome) is EpisodeStatus.NEED_HUMAN:
            return f"{outcome.episode_id}: waits for a person after {cost}"
        case _:
            return f"{outcome.episode_id}: solved in {cost}"


def by_class(failures: Counter[FailureClass] | dict[FailureClass, int]) -> str:
    """`agent 2, provider 1`, in the order of the classes."""
    return ", ".join(f"{kind} {failures[kind]}" for kind in FailureClass if failures.get(kind))


def clock(seconds: float) -> str:
    """`4 s`, `1:23` or `1:02:03`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def scripted_stamp(arm: Arm) -> str | None:
    """The line that no result of a scripted model goes without."""
    if not arm.scripted:
        return None
    names = sorted(set(_models(arm.settings)))
    return f"scripted models: {', '.join(names) or 'yes'} (says nothing about a real model)"


def _models(settings: JsonValue) -> list[str]:
    match settings:
        case dict():
            here = [settings["model"]] if isinstance(settings.get("model"), str) else []
            return [str(each) for each in here] + [
                name for each in settings.values() for name in _models(each)
            ]
        case list():
            return [name for each in settings for name in _models(each)]
        case _:
            return []


def _calls(metrics: ProviderMetrics) -> str:
    text = f"model calls {metrics.active}/{metrics.limit}"
    if metrics.max_queue_wait_s >= 0.1:
        text += f" (longest wait {metrics.max_queue_wait_s:.1f} s)"
    if metrics.queue_timeout_count:
        text += f" ({metrics.queue_timeout_count} gave up waiting)"
    return text

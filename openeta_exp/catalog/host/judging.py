"""Whether an episode succeeded: the task's predicate, thresholds on metrics, and phases."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openeta_exp.catalog.host.blame import ADAPTER, BrokenEpisodeError
from openeta_exp.catalog.host.values import Json, plain

Judge = Callable[[Mapping[str, object], Mapping[str, object]], object]


@dataclass(frozen=True)
class Rules:
    """A task's rules as the request states them; import strings are already resolved."""

    predicate: str
    predicate_args: Mapping[str, object]
    phases: Sequence[Mapping[str, Any]]
    thresholds: Sequence[Mapping[str, Any]]
    metrics: Sequence[Mapping[str, Any]]
    context: Mapping[str, object]


@dataclass
class Verdict:
    """What the rules made of an episode."""

    success: bool
    metrics: dict[str, Json] = field(default_factory=dict)
    phases: dict[str, Json] = field(default_factory=dict)
    unmet: list[str] = field(default_factory=list)


class Judgement:
    """Applies one task's rules to one episode after another."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._predicate = load(rules.predicate)
        self._phases = [
            (str(each["name"]), load(each["predicate"]), self._context(each["predicate_args"]))
            for each in rules.phases
        ]
        self._metrics = [
            (load(each["extractor"]), each["produces"], self._context(each["args"]))
            for each in rules.metrics
        ]
        self._reached: dict[str, Json] = {}

    @property
    def watches_steps(self) -> bool:
        return bool(self._phases)

    def start(self) -> None:
        self._reached = {}

    def watch(self, step: int, state: Mapping[str, object]) -> None:
        """Note the phases that the state after a step has reached, in their order."""
        while len(self._reached) < len(self._phases):
            name, predicate, context = self._phases[len(self._reached)]
            if not predicate(state, context):
                return
            self._reached[name] = step

    def judge(self, state: Mapping[str, object]) -> Verdict:
        """Raises: BrokenEpisodeError: A metric is missing, unknown or no number."""
        metrics = self._measure(state)
        held = bool(self._predicate(state, self._context(self._rules.predicate_args)))
        unmet = [] if held else [self._rules.predicate]
        unmet += [
            _worded(threshold)
            for threshold in self._rules.thresholds
            if not _holds(threshold, metrics[threshold["metric"]])
        ]
        phases: dict[str, Json] = {name: self._reached.get(name) for name, _, _ in self._phases}
        return Verdict(success=not unmet, metrics={**metrics}, phases=phases, unmet=unmet)

    def _context(self, args: Mapping[str, object]) -> Mapping[str, object]:
        return {**self._rules.context, "args": args}

    def _measure(self, state: Mapping[str, object]) -> dict[str, float]:
        measured: dict[str, float] = {}
        for extractor, produces, context in self._metrics:
            found = extractor(state, context)
            if not isinstance(found, Mapping):
                raise _broken(f"a metric extractor returned {type(found).__name__}, no mapping")
            unknown, absent = sorted(set(found) - set(produces)), sorted(set(produces) - set(found))
            if unknown or absent:
                raise _broken(f"metrics: not declared {unknown}, declared but absent {absent}")
            for name, value in found.items():
                number = plain(value)
                if isinstance(number, bool | str) or not isinstance(number, int | float):
                    raise _broken(f"metric {name} = {number!r} is no finite number")
                measured[str(name)] = float(number)
        return measured


def load(import_string: str) -> Judge:
    module, _, attribute = import_string.partition(":")
    found: Any = importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    judge: Judge = found
    return judge


def _holds(threshold: Mapping[str, Any], value: float) -> bool:
    low, high = threshold.get("at_least"), threshold.get("at_most")
    return value >= (-math.inf if low is None else low) and value <= (
        math.inf if high is None else high
    )


def _worded(threshold: Mapping[str, Any]) -> str:
    if threshold.get("at_least") is not None:
        return f"{threshold['metric']} >= {threshold['at_least']}"
    return f"{threshold['metric']} <= {threshold['at_most']}"


def _broken(message: str) -> BrokenEpisodeError:
    return BrokenEpisodeError(message, failure_class=ADAPTER, code="metric_unusable")

"""Before money is spent: can this design promote at all, how often would it, and for how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import (
    Gate,
    NoRegressionGate,
    SequentialGate,
    Terms,
)
from openeta_exp.statistics.agent_model import AgentModel
from openeta_exp.statistics.best_case import best_case
from openeta_exp.statistics.gate import effective_alpha
from openeta_exp.statistics.gate_operating import most_pairs, operating_point
from openeta_exp.statistics.operating import OperatingPoint
from openeta_exp.statistics.planning import exact_pairs_needed

EFFECTS = (-0.20, -0.10, 0.0, 0.05, 0.10, 0.15, 0.20, 0.30)
"""True gains for which operating characteristics are shown, where the agent allows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPrice:
    """What one pair, both arms, is expected to cost; None where nobody knows."""

    tokens: float | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """One line of the operating characteristics: what happens to a candidate of this worth."""

    effect: float
    point: OperatingPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignReport:
    """Whether a design is worth running.

    Attributes:
        can_promote: False if no outcome whatever could promote.
        problems: Why not, one sentence each.
        warnings: Why it may disappoint all the same.
        rows: Operating characteristics under `model`; empty if it cannot promote.
        pairs: Pairs available.
        most_pairs: Pairs after which it ends at the latest.
    """

    can_promote: bool
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    model: AgentModel
    rows: tuple[EffectRow, ...]
    pairs: int
    most_pairs: int
    price: PairPrice

    def sentences(self) -> tuple[str, ...]:
        """The report for a person, one sentence a line."""
        lines = [*self.problems, *self.warnings]
        lines.append(
            f"assumed: the baseline solves {100 * self.model.success_rate:.0f} % of episodes, "
            f"ICC {self.model.icc:.2f}; at most {counted(self.most_pairs, 'pair')}"
            + self._priced(self.most_pairs)
        )
        lines += [
            f"a candidate {_gain(row.effect)} is promoted with probability "
            f"{row.point.promote:.3f}, after "
            f"{counted(row.point.mean_pairs, 'pair', spec='.0f')} on average"
            + self._priced(row.point.mean_pairs)
            for row in self.rows
        ]
        return tuple(lines)

    def _priced(self, pairs: float) -> str:
        parts = []
        if self.price.tokens is not None:
            parts.append(counted(pairs * self.price.tokens, "token", spec=",.0f"))
        if self.price.usd is not None:
            parts.append(f"${pairs * self.price.usd:,.2f}")
        if self.price.seconds is not None:
            parts.append(f"{pairs * self.price.seconds / 60:,.0f} min of episodes")
        return f" ({', '.join(parts)})" if parts else ""


def _gain(effect: float) -> str:
    if effect == 0:
        return "that changes nothing"
    return (
        f"{counted(100 * abs(effect), 'point', spec='.0f')} {'better' if effect > 0 else 'worse'}"
    )


def design_report(
    gate: Gate,
    *,
    pairs: int,
    tasks: int,
    terms: Terms | None = None,
    model: AgentModel | None = None,
    price: PairPrice | None = None,
    effects: Sequence[float] = EFFECTS,
    runs: int = 4_000,
    seed: int = 0,
) -> DesignReport:
    """Check a design and compute its operating characteristics.

    Args:
        pairs: Held-out pairs that are available, without reserves.
        tasks: Tasks they are spread over.
        terms: With the ledger's level and the measured flakiness, if there is one.
        model: What is believed of the agent; the measured flakiness decides if None.
    """
    terms = terms or Terms()
    model = model or assumed_model(terms)
    best = best_case(gate, pairs=pairs, tasks=tasks, terms=terms)
    problems: tuple[str, ...] = ()
    if not best.promotes:
        problems = tuple(
            f"this design can never promote: were every one of {counted(pairs, 'pair')} fixed, the "
            f"verdict would be {reason.ground.decision} {reason.code}: {reason.message}"
            for reason in best.reasons
        )
    alpha = effective_alpha(gate, terms)
    rows = tuple(
        EffectRow(
            effect=effect,
            point=operating_point(
                gate, model.against(effect), pairs=pairs, alpha=alpha, runs=runs, seed=seed
            ),
        )
        for effect in effects
        if best.promotes and 0 < model.success_rate + effect < 1
    )
    return DesignReport(
        can_promote=best.promotes,
        problems=problems,
        warnings=_warnings(gate, rows, model=model, pairs=pairs, alpha=alpha),
        model=model,
        rows=rows,
        pairs=pairs,
        most_pairs=most_pairs(gate, available=pairs),
        price=price or PairPrice(),
    )


def _warnings(
    gate: Gate,
    rows: Sequence[EffectRow],
    *,
    model: AgentModel,
    pairs: int,
    alpha: float | None,
) -> tuple[str, ...]:
    if not rows:
        return ()
    if isinstance(gate, NoRegressionGate):
        identical = next((row for row in rows if row.effect == 0), None)
        return (
            "this rule has no controlled error rate"
            + (
                f": it would promote an identical agent with probability "
                f"{identical.point.promote:.2g}"
                if identical is not None
                else ""
            ),
        )
    warnings = []
    if isinstance(gate, SequentialGate) and pairs < gate.largest_n_max:
        warnings.append(
            f"{counted(pairs, 'pair is', plural='pairs are')} available, the test "
            f"could use {gate.largest_n_max}"
        )
    if model.success_rate + gate.delta_min < 1 and alpha:
        needed = exact_pairs_needed(model, effect=gate.delta_min, alpha=alpha)
        available = most_pairs(gate, available=pairs)
        if needed > 1.2 * available:
            warnings.append(
                f"a gain of {counted(100 * gate.delta_min, 'point', spec='.0f')} needs about "
                f"{counted(needed, 'pair')} for a "
                f"power of 80 %, this design uses at most {available}"
            )
    return tuple(warnings)


def assumed_model(terms: Terms) -> AgentModel:
    """The measured agent, or the typical one: 70 % success, ICC one half."""
    measured = terms.flakiness
    if measured is None:
        return AgentModel()
    icc = AgentModel().icc if measured.icc is None else min(max(measured.icc, 0.0), 1.0)
    return AgentModel(success_rate=measured.success_rate, icc=icc)

"""The default gate's test: an exact sign test that may stop early (alpha spending).

If neither arm is better, the sign of a discordant pair is a fair coin whatever decides which pairs
are discordant. The chance of ever crossing the boundary is therefore computed exactly, given when
discordant pairs turned up, and nothing about the agent has to be assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from openeta_exp.statistics.paired import sign_tail
from openeta_exp.statistics.sequential_design import (
    Reestimation,
    SequentialDesign,
    conditional_power,
    reestimated,
)

HARM_ALPHA = 0.05
"""Level at which a candidate that is given up is called worse instead of futile."""


class Call(StrEnum):
    """What a look decides. Everything but CONTINUE ends the test."""

    CONTINUE = "continue"
    SUPERIOR = "superior"
    WORSE = "worse"
    FUTILE = "futile"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class SequentialState:
    """Where the test stands after some pairs, consumed in schedule order.

    Attributes:
        surviving: `P(wins = k and no earlier rejection)` under "no arm is better", by `k`.
        spent: Type I error used up so far.
    """

    pairs: int = 0
    wins: int = 0
    losses: int = 0
    spent: float = 0.0
    surviving: tuple[float, ...] = (1.0,)

    def after(self, difference: int) -> SequentialState:
        """The state one pair later: +1 the candidate alone, -1 the baseline alone, 0 a tie.

        Raises:
            ValueError: If the difference is anything else.
        """
        match difference:
            case 0:
                return replace(self, pairs=self.pairs + 1)
            case 1 | -1:
                heads, tails = (0.0, *self.surviving), (*self.surviving, 0.0)
                return replace(
                    self,
                    pairs=self.pairs + 1,
                    wins=self.wins + (difference > 0),
                    losses=self.losses + (difference < 0),
                    surviving=tuple((h + t) / 2 for h, t in zip(heads, tails, strict=True)),
                )
            case _:
                raise ValueError(f"a pair differs by -1, 0 or 1, not {difference}")


@dataclass(frozen=True, slots=True)
class Look:
    """One decision.

    Attributes:
        state: After this look's share of alpha was spent.
        critical_wins: Wins at which this look calls the candidate superior; may exceed every
            possible count, which means that this look cannot.
        p_stage: Stage-wise p-value of stopping here; valid at any look.
        conditional_power: Chance of still succeeding if the gain is `delta_min`; None at the end.
    """

    state: SequentialState
    critical_wins: int
    p_stage: float
    conditional_power: float | None
    call: Call


def look(design: SequentialDesign, state: SequentialState) -> Look:
    """Spend what may be spent by now, and decide."""
    share = min(1.0, state.pairs / design.n_max) ** design.rho
    budget = max(0.0, design.alpha * share - state.spent)
    tails = _upper_tails(state.surviving)
    critical = next(wins for wins, tail in enumerate(tails) if tail <= budget)
    after = replace(
        state,
        spent=state.spent + tails[critical],
        surviving=tuple(
            mass if wins < critical else 0.0 for wins, mass in enumerate(state.surviving)
        ),
    )
    power = None
    if state.pairs < design.n_max:
        power = float(
            conditional_power(design, pairs=state.pairs, wins=state.wins, losses=state.losses)
        )
    return Look(
        state=after,
        critical_wins=critical,
        p_stage=min(1.0, state.spent + tails[state.wins]),
        conditional_power=power,
        call=_call(design, state, critical_wins=critical, power=power),
    )


def _upper_tails(surviving: Sequence[float]) -> list[float]:
    """`tails[k]` is the mass at `k` wins or more, with a final 0 for "more than possible"."""
    tails = [0.0]
    for mass in reversed(surviving):
        tails.append(tails[-1] + mass)
    return tails[::-1]


def _call(
    design: SequentialDesign, state: SequentialState, *, critical_wins: int, power: float | None
) -> Call:
    if state.wins >= critical_wins:
        return Call.SUPERIOR
    if power is None:
        return Call.BUDGET
    if power >= design.gamma:
        return Call.CONTINUE
    harm_p = sign_tail(state.losses, state.wins + state.losses)
    return Call.WORSE if harm_p <= HARM_ALPHA else Call.FUTILE


@dataclass(frozen=True, slots=True)
class SequentialRun:
    """Attributes:
    design: As it stood at the end; differs from the planned one after re-estimation.
    state: After the last pair that was consumed.
    looks: In order; empty before the first. The last one says whether the test has ended.
    """

    design: SequentialDesign
    state: SequentialState
    looks: tuple[Look, ...]

    @property
    def call(self) -> Call:
        return self.looks[-1].call if self.looks else Call.CONTINUE


def run(
    design: SequentialDesign,
    differences: Sequence[int],
    *,
    rule: Reestimation | None = None,
    exhausted: bool = False,
    not_before: int = 0,
) -> SequentialRun:
    """Play a stream of paired differences until a look stops it, or until it ends.

    Args:
        rule: Re-estimate `n_max` at the first look.
        exhausted: No further pair will come, so the last one gets a look out of turn.
        not_before: Pairs before which looks are left out, for reasons that no outcome decides.
    """
    state, looks = SequentialState(), list[Look]()
    for position, difference in enumerate(differences, start=1):
        state = state.after(difference)
        last = exhausted and position == len(differences) and state.pairs >= design.n_min
        if position < not_before or not (design.looks_after(state.pairs) or last):
            continue
        if rule is not None and not looks:
            discordant = state.wins + state.losses
            design = reestimated(design, pairs=state.pairs, discordant=discordant, rule=rule)
        looks.append(look(design, state))
        state = looks[-1].state
        if looks[-1].call is not Call.CONTINUE:
            break
    return SequentialRun(design, state, tuple(looks))

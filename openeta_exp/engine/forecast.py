"""What a command will cost: measured where there is something to measure, bounded where not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openeta_exp.domain.counting import counted
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.model import ModelRole
from openeta_exp.domain.money import Prices, Spent, Tokens

LINEAGE_ROLES = frozenset({ModelRole.STRATEGY_AUTHOR, ModelRole.STRATEGY_REVIEWER})
"""Asked once or so in a generation; all others work in episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Episodes to come, by what each of them may take at most."""

    episodes: int
    tokens: int
    turns: int
    tool_calls: int

    @classmethod
    def of(cls, manifest: Manifest, *, episodes: int) -> Work:
        """So many episodes like the most expensive one of a manifest."""
        budgets = [spec.budget for spec in manifest.episodes]
        return cls(
            episodes=episodes,
            tokens=max(budget.max_total_tokens for budget in budgets),
            turns=max(budget.max_turns for budget in budgets),
            tool_calls=max(budget.max_tool_calls for budget in budgets),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleLimits:
    """What the settings allow a role: so many calls for each of these, and so long answers."""

    role: ModelRole
    written: int
    per_turn: int = 0
    per_tool_call: int = 0
    per_generation: int = 0

    def calls(self, work: Sequence[Work], *, generations: int) -> int:
        return generations * self.per_generation + sum(
            each.episodes * (each.turns * self.per_turn + each.tool_calls * self.per_tool_call)
            for each in work
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What the experiment's journal says so far.

    Attributes:
        episodes: That have ended, broken ones included.
        generations: That were begun.
    """

    episodes: int = 0
    generations: int = 0
    spent: Sequence[Spent] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleForecast:
    """What one role will cost.

    Attributes:
        measured: Episodes, or generations for who works on these, that `tokens` are extrapolated
            from; 0 if the role was not asked yet.
        tokens: None if they were not measured.
        calls_at_most: By the settings, retries included.
    """

    role: ModelRole
    measured: int
    tokens: Tokens | None
    calls_at_most: int
    written_at_most: int

    def sentence(self, prices: Prices) -> str:
        if self.tokens is None:
            return (
                f"{self.role}: not measured yet; at most {counted(self.calls_at_most, 'call')}, "
                f"answers of {counted(self.written_at_most, 'token')} together"
            )
        unit = "generation" if self.role in LINEAGE_ROLES else "episode"
        return (
            f"{self.role}: about "
            f"{counted(self.tokens.total, 'token')}{_priced(self.tokens, prices)}, "
            f"measured over {counted(self.measured, unit)}"
        )

    def to_json(self, prices: Prices) -> JsonObject:
        known = self.tokens
        return {
            "role": self.role.value,
            "basis": self.measured,
            "tokens_in": None if known is None else known.read,
            "tokens_out": None if known is None else known.written,
            "usd": None if known is None else prices.of(known),
            "calls_at_most": self.calls_at_most,
            "tokens_out_at_most": self.written_at_most,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a command will cost.

    Attributes:
        what: It is about, in words.
        most: That the budgets of its episodes allow, all roles together.
    """

    what: str
    episodes: int
    roles: tuple[RoleForecast, ...]
    most: Tokens
    prices: Prices

    @property
    def is_measured(self) -> bool:
        return any(each.tokens is not None for each in self.roles)

    @property
    def tokens(self) -> Tokens:
        """Expected of the roles that were measured; the most there can be if none was."""
        if not self.is_measured:
            return self.most
        return sum((each.tokens for each in self.roles if each.tokens is not None), Tokens())

    @property
    def usd(self) -> float | None:
        return self.prices.of(self.tokens)

    def to_json(self) -> JsonObject:
        """For a program; `tokens_in` and so on of a role are null if it was not measured."""
        return {
            "episodes": self.episodes,
            "measured": self.is_measured,
            "tokens": self.tokens.total,
            "usd": self.usd,
            "roles": [each.to_json(self.prices) for each in self.roles],
        }

    def sentences(self) -> tuple[str, ...]:
        """The sum, then role by role, with what each figure rests on."""
        about = "about" if self.is_measured else "at most"
        basis = (
            "by what this experiment has measured"
            if self.is_measured
            else "by the budgets of its episodes (max_total_tokens, all roles together)"
        )
        return (
            f"{self.what}, {counted(self.episodes, 'episode')}: {about} "
            f"{counted(self.tokens.total, 'token')}"
            f"{_priced(self.tokens, self.prices)}, {basis}{_unpriced(self.prices)}",
            *(f"  {each.sentence(self.prices)}" for each in self.roles),
        )


def forecast(
    what: str,
    work: Sequence[Work],
    *,
    generations: int,
    limits: Sequence[RoleLimits],
    earlier: Earlier,
    prices: Prices,
) -> Forecast:
    """Extrapolate what each role has cost so far, and bound what was not measured.

    Args:
        generations: To come; 0 if nothing is authored.
    """
    episodes = sum(each.episodes for each in work)
    measured = _by_role(earlier.spent)
    roles: list[RoleForecast] = []
    for limit in limits:
        calls = limit.calls(work, generations=generations)
        by_generation = limit.role in LINEAGE_ROLES
        basis, times = (
            (earlier.generations, generations) if by_generation else (earlier.episodes, episodes)
        )
        spent = measured.get(limit.role)
        if calls == 0:
            continue
        roles.append(
            RoleForecast(
                role=limit.role,
                measured=basis if spent is not None else 0,
                tokens=None if spent is None or basis == 0 else _scaled(spent, times / basis),
                calls_at_most=calls,
                written_at_most=calls * limit.written,
            )
        )
    total = sum(each.episodes * each.tokens for each in work)
    written = min(total, sum(each.written_at_most for each in roles))
    return Forecast(
        what=what,
        episodes=episodes,
        roles=tuple(roles),
        most=Tokens(total - written, written),
        prices=prices,
    )


def _by_role(spent: Sequence[Spent]) -> Mapping[ModelRole, Tokens]:
    found: dict[ModelRole, Tokens] = {}
    for row in spent:
        if row.settled:
            found[row.role] = found.get(row.role, Tokens()) + row.tokens
    return found


def _scaled(tokens: Tokens, factor: float) -> Tokens:
    return Tokens(round(tokens.read * factor), round(tokens.written * factor))


def _priced(tokens: Tokens, prices: Prices) -> str:
    usd = prices.of(tokens)
    return "" if usd is None else f" (${usd:,.2f})"


def _unpriced(prices: Prices) -> str:
    missing = [
        name
        for name, price in (
            ("money.input_usd_per_million", prices.input_usd),
            ("money.output_usd_per_million", prices.output_usd),
        )
        if price is None
    ]
    return f"; price unknown, set {' and '.join(missing)}" if missing else ""

"""What every model call costs, and the refusal of the one that could cost too much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from openeta_exp.domain.event import Event, GenerationStarted
from openeta_exp.domain.model import ModelRequest, ModelRole, TokenUsage
from openeta_exp.domain.money import LEAST_TELLING, Caps, Charge, Prices, Tokens
from openeta_exp.errors import SpendingCapError
from openeta_exp.ports.spending import SpendingLedger
from openeta_exp.wire.chat_tokens import prompt_tokens

UNKNOWN_MARGIN = 2.0
"""What an estimate is multiplied by until a role's model has shown how it counts: a quarter of the
bytes fits prose, and a prompt of numbers has up to twice as many tokens."""


@dataclass(frozen=True, slots=True)
class Hold:
    """An attempt that is on its way, and the most it can cost."""

    number: int
    charge: Charge


@dataclass(slots=True)
class _Account:
    """Of one generation, or of all."""

    settled: Tokens = field(default_factory=Tokens)
    held: Tokens = field(default_factory=Tokens)
    """The most that attempts can cost which are on their way, or were never answered."""


class SpendingMeter:
    """One account for every endpoint and role. May be used by any number of tasks of one loop.

    Before an attempt is sent, the most it can cost is put down: its prompt as estimated, times
    the largest error of such an estimate so far, and the longest answer it allows. An attempt
    that would exceed a cap together with all that is spent or put down is refused, and so is
    every later one: what is in flight is about to be interrupted.
    """

    def __init__(
        self, ledger: SpendingLedger, *, caps: Caps, prices: Prices, generation: int = 0
    ) -> None:
        """
        Args:
            ledger: What was spent before counts.
            generation: To which calls belong until another one begins.
        """
        self._ledger = ledger
        self._caps = caps
        self._prices = prices
        self._generation = generation
        self._total = _Account()
        self._by_generation: dict[int, _Account] = {}
        self._margins: dict[ModelRole, float] = {}
        self._refusal = ""
        for row in ledger.spent():
            for account in self._accounts(row.generation):
                if row.settled:
                    account.settled += row.tokens
                else:
                    account.held += row.tokens
            self._learn(row.role, row.margin)

    @property
    def spent(self) -> Tokens:
        """What answers were charged with, over every run of the experiment."""
        return self._total.settled

    @property
    def unanswered(self) -> Tokens:
        """The most that attempts without an answer can have cost, once none is on its way."""
        return self._total.held

    @property
    def refusal(self) -> str:
        """Which cap is reached, in one sentence; empty while none is."""
        return self._refusal

    def take(self, event: Event) -> None:
        """Calls belong to the generation that was begun last."""
        if isinstance(event, GenerationStarted):
            self._generation = event.generation

    def hold(self, request: ModelRequest, *, max_images: int) -> Hold:
        """Put an attempt down before it is sent.

        Raises:
            SpendingCapError: It could exceed a cap, or an earlier one could.
            StoreError: It could not be put down.
        """
        if self._refusal:
            raise SpendingCapError(self._refusal)
        estimated = prompt_tokens(request, max_images=max_images)
        margin = self._margins.get(request.role, UNKNOWN_MARGIN)
        charge = Charge(
            generation=self._generation,
            role=request.role,
            estimated=estimated,
            most=Tokens(math.ceil(estimated * margin), request.max_output_tokens),
        )
        self._refusal = next(self._exceeded(charge), "")
        if self._refusal:
            raise SpendingCapError(self._refusal)
        number = self._ledger.put_down(charge)
        for account in self._accounts(charge.generation):
            account.held += charge.most
        return Hold(number, charge)

    def settle(self, hold: Hold, usage: TokenUsage) -> None:
        """Take what an attempt did cost; nothing if it was not charged. Raises: StoreError."""
        tokens = Tokens.of(usage)
        self._ledger.settle(hold.number, tokens)
        for account in self._accounts(hold.charge.generation):
            account.held -= hold.charge.most
            account.settled += tokens
        if hold.charge.estimated >= LEAST_TELLING:
            self._learn(hold.charge.role, tokens.read / hold.charge.estimated)

    def _accounts(self, generation: int) -> tuple[_Account, _Account]:
        return self._total, self._by_generation.setdefault(generation, _Account())

    def _learn(self, role: ModelRole, margin: float) -> None:
        if margin > 0:
            self._margins[role] = max(1.0, margin, self._margins.get(role, 0.0))

    def _exceeded(self, charge: Charge) -> Iterator[str]:
        """One sentence for each cap that the attempt could exceed."""
        caps, (experiment, generation) = self._caps, self._accounts(charge.generation)
        where = f" in generation {charge.generation}"
        for name, cap, account, scope in (
            ("experiment_tokens", caps.experiment_tokens, experiment, ""),
            ("generation_tokens", caps.generation_tokens, generation, where),
        ):
            if cap is not None and (account.settled + account.held + charge.most).total > cap:
                spent, held, more = (
                    f"{each.total:,}" for each in (account.settled, account.held, charge.most)
                )
                yield _refusal(f"{name} = {cap:,}", scope, spent, held, more, charge.role)
        for name, limit, account, scope in (
            ("experiment_usd", caps.experiment_usd, experiment, ""),
            ("generation_usd", caps.generation_usd, generation, where),
        ):
            price = self._prices.of(account.settled + account.held + charge.most)
            if limit is not None and price is not None and price > limit:
                spent, held, more = (
                    f"${self._prices.of(each) or 0.0:,.4f}"
                    for each in (account.settled, account.held, charge.most)
                )
                yield _refusal(f"{name} = {limit:g}", scope, spent, held, more, charge.role)


def _refusal(cap: str, scope: str, spent: str, held: str, more: str, role: ModelRole) -> str:
    unit = "" if spent.startswith("$") else " tokens"
    name = cap.partition(" ")[0]
    return (
        f"money.{cap}: stopped before a call of {role} that may take up to {more}{unit}; "
        f"{spent}{unit} spent{scope}, up to {held} for calls in flight or without an answer; "
        f"raise money.{name} and give the same command to go on"
    )

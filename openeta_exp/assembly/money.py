"""Settings -> what model calls cost and may cost."""

from __future__ import annotations

from openeta_exp.adapters.provider.meter import SpendingMeter
from openeta_exp.domain.money import Caps, Prices
from openeta_exp.ports.spending import SpendingLedger
from openeta_exp.settings.experiment import ExperimentSettings


def prices(settings: ExperimentSettings) -> Prices:
    money = settings.money
    return Prices(input_usd=money.input_usd_per_million, output_usd=money.output_usd_per_million)


def spending_meter(
    settings: ExperimentSettings, ledger: SpendingLedger, *, generation: int = 0
) -> SpendingMeter:
    """The account of an experiment: what it spent before counts.

    Args:
        generation: To which calls belong until another one begins.
    """
    money = settings.money
    caps = Caps(
        experiment_usd=money.experiment_usd,
        generation_usd=money.generation_usd,
        experiment_tokens=money.experiment_tokens,
        generation_tokens=money.generation_tokens,
    )
    return SpendingMeter(ledger, caps=caps, prices=prices(settings), generation=generation)

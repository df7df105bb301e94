"""Every published value that an independent program or paper gives, with its source."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel, JsonValue

from openeta_exp.statistics.clusters import clustered_standard_error, task_mean_test
from openeta_exp.statistics.e_values import discordant_e_value, fixed_bet_e_value
from openeta_exp.statistics.intervals import Interval, liddell, newcombe, tango, wald
from openeta_exp.statistics.multiplicity import LondRule, lord_plus_plus_levels
from openeta_exp.statistics.paired import (
    Alternative,
    mcnemar_exact,
    mcnemar_midp,
    mcnemar_z_squared,
    sign_flip,
)
from openeta_exp.statistics.posterior import superior_probability
from openeta_exp.statistics.sample_size import pairs_needed
from openeta_exp.statistics.sequential import Call, run
from openeta_exp.statistics.sequential_design import SequentialDesign


class Case(BaseModel):
    """One line of `reference_values.json`."""

    fn: str
    args: dict[str, JsonValue]
    expected: JsonValue
    tol: float
    source: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one case, read with the type that the function needs."""

    raw: dict[str, JsonValue]

    def integer(self, name: str) -> int:
        value = self.raw[name]
        assert isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        value = self.raw[name]
        assert isinstance(value, int | float)
        return float(value)

    def numbers(self, name: str) -> list[float]:
        values = self.raw[name]
        assert isinstance(values, list)
        return [float(value) for value in values if isinstance(value, int | float)]

    def integers(self, name: str) -> list[int]:
        return [int(value) for value in self.numbers(name)]

    @property
    def alternative(self) -> Alternative:
        return Alternative(str(self.raw["alternative"]))

    @property
    def counts(self) -> tuple[int, int]:
        return self.integer("w"), self.integer("l")


def ends(interval: Interval) -> JsonValue:
    return [interval.low, interval.high]


def liddell_ratio(a: Arguments) -> JsonValue:
    wins, losses = a.counts
    interval = liddell(wins, losses, level=a.number("level"))
    return {"ratio": wins / losses, "low": interval.low, "high": interval.high}


def lond_levels(a: Arguments) -> JsonValue:
    histories = a.raw["history"]
    assert isinstance(histories, list)
    rule = LondRule(horizon=a.integer("horizon"), fdr=a.number("alpha"), cap=0.5)
    return [rule.level([bool(x) for x in h]) for h in histories if isinstance(h, list)]


def sequential_stream(a: Arguments) -> JsonValue:
    design = SequentialDesign(
        n_max=a.integer("n_max"),
        alpha=a.number("alpha"),
        rho=a.number("rho"),
        batch=a.integer("batch"),
        n_min=a.integer("min_pairs"),
        gamma=0,
    )
    played = run(design, a.integers("stream"))
    last = played.looks[-1]
    return {
        "rejected_at": last.state.pairs if last.call is Call.SUPERIOR else None,
        "crit": [look.critical_wins for look in played.looks],
        "spent": last.state.spent,
        "p_stage": last.p_stage,
    }


def total_spend(a: Arguments) -> JsonValue:
    """Alternating signs never reach a boundary, so every look adds its share."""
    design = SequentialDesign(
        n_max=a.integer("n_max"),
        alpha=a.number("alpha"),
        rho=a.number("rho"),
        batch=1,
        n_min=0,
        gamma=0,
    )
    signs = [(-1) ** position for position, _ in enumerate(a.integers("path"))]
    return run(design, signs).state.spent


COMPUTE: dict[str, Callable[[Arguments], JsonValue]] = {
    "mcnemar_exact": lambda a: mcnemar_exact(*a.counts, alternative=a.alternative),
    "mcnemar_midp": lambda a: mcnemar_midp(*a.counts, alternative=a.alternative),
    "tango_ci": lambda a: ends(tango(*a.counts, pairs=a.integer("n"), level=a.number("level"))),
    "wald_ci": lambda a: ends(wald(*a.counts, pairs=a.integer("n"), level=a.number("level"))),
    "newcombe_ci": lambda a: ends(
        newcombe(*a.counts, both=a.integer("a"), neither=a.integer("d"), level=a.number("level"))
    ),
    "liddell": liddell_ratio,
    "e_discordant": lambda a: discordant_e_value(
        *a.counts,
        a=a.number("a"),
        b=a.number("b"),
        one_sided=a.raw.get("one_sided") is not False,
    ),
    "e_fixed_bet": lambda a: fixed_bet_e_value(
        a.numbers("D"), bet=a.number("lam"), at_most=a.number("theta0")
    ),
    "bayes_p_superior": lambda a: superior_probability(*a.counts, prior=a.numbers("prior")[0]),
    "cluster_se": lambda a: clustered_standard_error(
        a.numbers("d"), a.integers("cluster"), corrected=a.raw["correction"] is True
    ),
    "signflip_p": lambda a: sign_flip(a.numbers("task_means")),
    "lordpp_levels": lambda a: list(
        lord_plus_plus_levels(
            a.numbers("p"), alpha=a.number("alpha"), initial_wealth=a.number("w0")
        )
    ),
    "lond_levels": lond_levels,
    "pairs_needed": lambda a: pairs_needed(
        a.number("delta"),
        discordance=a.number("pd"),
        alpha=a.number("alpha"),
        power=a.number("power"),
        sides=a.integer("sides"),
    ),
    "seq_sign": sequential_stream,
    "seq_total_spend_bruteforce": total_spend,
}

CASES = [
    Case.model_validate(case)
    for case in json.loads(
        Path(__file__).with_name("reference_values.json").read_text(encoding="utf-8")
    )
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.fn}-{case.source[:24]}")
def test_a_published_value_is_reproduced(case: Case) -> None:
    computed = COMPUTE[case.fn](Arguments(case.args))

    if isinstance(case.expected, dict):
        assert isinstance(computed, dict)
        computed = {name: computed[name] for name in case.expected}
        for name, value in case.expected.items():
            assert computed[name] == pytest.approx(value, abs=case.tol), name
    else:
        assert computed == pytest.approx(case.expected, abs=case.tol)


def test_every_kind_of_published_value_is_covered() -> None:
    assert {case.fn for case in CASES} == set(COMPUTE)
    assert len(CASES) == 41


def test_agrestis_opinion_poll_is_reproduced() -> None:
    assert mcnemar_z_squared(150, 86) == pytest.approx(17.3559, abs=5e-5)
    assert mcnemar_exact(150, 86, alternative=Alternative.TWO_SIDED) == pytest.approx(
        3.716e-5, abs=5e-9
    )


def test_the_t_test_on_five_task_means_matches_the_cluster_robust_one() -> None:
    case = next(case for case in CASES if case.fn == "cluster_se")
    arguments = Arguments(case.args)

    test = task_mean_test(arguments.numbers("d"), arguments.integers("cluster"))

    assert test.tasks == 5
    assert test.p_two_sided == pytest.approx(0.1778, abs=5e-5)

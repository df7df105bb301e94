"""What every gate does to agents of known worth: `scripts/bench gates [--runs N]`.

Prints markdown: false promotion, power and mean pairs of every mode, then whether the figures of
an independent simulation study are met. Fixed, anytime and original rules are enumerated; the
sequential ones are simulated. Exit code 1 if a figure is not met.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from openeta_exp.domain.gate import (
    LOCAL_GATE,
    PUBLISH_GATE,
    AnytimeGate,
    FixedGate,
    Gate,
    NoRegressionGate,
    SequentialGate,
)
from openeta_exp.statistics.agent_model import AgentModel, PairRates
from openeta_exp.statistics.gate_operating import operating_point
from openeta_exp.statistics.no_regression import FailureReports, pass_probability
from openeta_exp.statistics.operating import OperatingPoint, fixed_operating_point

SUCCESS_RATES = (0.5, 0.7, 0.9)
ICCS = (0.2, 0.5, 0.8)
EFFECTS = (-0.20, -0.10, 0.0, 0.05, 0.10, 0.20)
LARGER_GATE = SequentialGate(n_max=100, delta_min=0.125)
SKILL_RULE = NoRegressionGate(strategy=None)

MODES: dict[str, tuple[Gate, int]] = {
    "no_regression, 2 pairs": (SKILL_RULE, 2),
    "no_regression, 6 pairs": (SKILL_RULE, 6),
    "no_regression, 20 pairs": (SKILL_RULE, 20),
    "fixed, 60 pairs": (FixedGate(), 60),
    "fixed mid-p, 60 pairs": (FixedGate(midp=True), 60),
    "anytime, at most 60": (AnytimeGate(), 60),
    "sequential publish, at most 60": (PUBLISH_GATE, 60),
    "sequential, at most 100": (LARGER_GATE, 100),
    "sequential auto, at most 40 to 150": (SequentialGate(n_max="auto"), 150),
    "sequential local, at most 40": (LOCAL_GATE, 40),
}
"""Name to gate and available pairs."""

STUDY_RUNS = 25_000
"""Streams behind every simulated figure of the study."""

# ICC, largest size, baseline success rate; then promoted/mean pairs at gains of -20 -10 -5 0 5 10
# 20 30 points.
SEQUENTIAL_STUDY = """
.2 60 .5  .000/21 .003/25 .013/27 .042/31 .117/36 .268/39 .714/39 .973/29
.2 60 .7  .000/21 .002/25 .010/28 .041/33 .131/38 .326/42 .878/36
.2 60 .9  .000/21 .000/26 .005/30 .032/38 .193/46
.2 100 .5 .000/26 .002/34 .009/41 .046/50 .157/60 .389/65 .898/53 .999/33
.2 100 .7 .000/26 .002/35 .008/42 .047/53 .179/64 .479/68 .982/44
.2 100 .9 .000/27 .000/38 .003/48 .041/64 .345/77
.5 60 .5  .000/21 .001/25 .007/29 .039/35 .148/40 .369/43 .881/36 .998/25
.5 60 .7  .000/21 .001/26 .007/30 .038/36 .159/42 .447/45 .964/33
.5 60 .9  .000/21 .000/26 .001/31 .021/39 .194/47
.5 100 .5 .000/27 .001/37 .006/45 .045/57 .208/68 .548/69 .982/43 1.000/27
.5 100 .7 .000/27 .000/37 .005/46 .045/59 .240/71 .656/69 .999/37
.5 100 .9 .000/27 .000/39 .001/51 .031/67 .417/78
.8 60 .5  .000/21 .000/26 .001/31 .023/39 .191/46 .600/46 .990/31 1.000/23
.8 60 .7  .000/21 .000/26 .000/31 .017/39 .195/47 .654/46 .994/31
.8 60 .9  .000/21 .000/26 .000/31 .002/39 .177/49
.8 100 .5 .000/28 .000/40 .001/51 .035/67 .353/77 .857/63 1.000/34 1.000/25
.8 100 .7 .000/28 .000/40 .000/51 .029/67 .392/78 .913/60 1.000/34
.8 100 .9 .000/28 .000/41 .000/52 .006/68 .484/78
"""

# ICC one half. Pairs, baseline success rate; then exact/mid-p power at -10 0 5 10 20 30.
FIXED_STUDY = """
20 .5  .001/.003 .013/.031 .036/.077 .087/.161 .322/.466 .688/.814
20 .7  .001/.002 .009/.027 .030/.072 .080/.166 .358/.547
20 .9  .000/.000 .001/.005 .006/.029
50 .5  .000/.001 .027/.046 .111/.162 .302/.390 .826/.882 .994/.997
50 .7  .000/.001 .024/.043 .113/.173 .346/.451 .927/.961
50 .9  .000/.000 .011/.028 .124/.237
100 .5 .000/.000 .034/.049 .202/.254 .567/.634 .988/.993 1.000/1.000
100 .7 .000/.000 .033/.049 .230/.291 .671/.738 .999/1.000
100 .9 .000/.000 .022/.040 .407/.529
"""

# ICC one half. Pairs, baseline success rate; then with the runtime's counters/without them at
# -20 -10 -5 0 5 10 20 30.
ORIGINAL_STUDY = """
2 .5  .27/.36 .39/.50 .45/.56 .51/.62 .57/.69 .63/.74 .75/.85 .85/.93
2 .7  .42/.51 .55/.64 .61/.70 .67/.76 .74/.82 .80/.88 .92/.97
2 .9  .57/.61 .72/.76 .80/.84 .87/.91 .95/.97
6 .5  .08/.18 .16/.30 .21/.37 .27/.45 .34/.53 .42/.61 .59/.77 .76/.90
6 .7  .11/.19 .22/.33 .29/.42 .38/.51 .48/.62 .59/.73 .83/.92
6 .9  .19/.24 .38/.45 .52/.60 .68/.76 .86/.92
20 .5 .00/.00 .01/.02 .02/.04 .04/.07 .08/.12 .13/.19 .32/.41 .61/.70
20 .7 .00/.00 .01/.02 .03/.05 .07/.11 .15/.20 .27/.35 .68/.77
20 .9 .00/.01 .05/.07 .13/.18 .31/.40 .65/.75
"""

LONG = (-0.20, -0.10, -0.05, 0.0, 0.05, 0.10, 0.20, 0.30)
SHORT = (-0.10, 0.0, 0.05, 0.10, 0.20, 0.30)

Point = Callable[[str, float, float, float], OperatingPoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One figure of the study, and ours.

    Attributes:
        allowed: Largest difference that simulation and rounding explain.
    """

    name: str
    ours: float
    published: float
    allowed: float

    @property
    def met(self) -> bool:
        return abs(self.ours - self.published) <= self.allowed

    @property
    def ratio(self) -> float:
        return abs(self.ours - self.published) / self.allowed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=25_000, help="streams per simulated cell")
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args(arguments)
    started_s = time.monotonic()
    point = cache(partial(_point, runs=options.runs, seed=options.seed))
    _print_modes(point, runs=options.runs)
    groups = {
        "sequential: promoted": list(_sequential_rates(point, runs=options.runs)),
        "sequential: mean pairs": list(_sequential_pairs(point)),
        "fixed: exact and mid-p power": list(_fixed_figures()),
        "original rule: with and without counters": list(_original_figures()),
    }
    met = _print_agreement(groups)
    print(f"\n{options.runs:,} streams a cell, {time.monotonic() - started_s:.0f} s")
    return 0 if met else 1


@cache
def _rates(success_rate: float, icc: float, effect: float) -> PairRates:
    return AgentModel(success_rate=success_rate, icc=icc).against(effect)


def _point(
    mode: str, success_rate: float, icc: float, effect: float, *, runs: int, seed: int
) -> OperatingPoint:
    gate, pairs = MODES[mode]
    # Every cell draws its own streams, so that differences from the study are independent.
    cell = [seed, list(MODES).index(mode), *(round(1000 * x) for x in (success_rate, icc))]
    state = np.random.SeedSequence([*cell, round(1000 * (effect + 1))]).generate_state(1)
    return operating_point(
        gate,
        _rates(success_rate, icc, effect),
        pairs=pairs,
        runs=runs,
        seed=int(state[0]),
    )


def _print_modes(point: Point, *, runs: int) -> None:
    print("Promoted (mean pairs), by the candidate's true gain in points.\n")
    print("| gate | baseline | ICC | " + " | ".join(f"{100 * e:+.0f}" for e in EFFECTS) + " |")
    print("|---" * (3 + len(EFFECTS)) + "|")
    for mode in MODES:
        for success_rate in SUCCESS_RATES:
            for icc in ICCS:
                cells = [
                    _cell(point(mode, success_rate, icc, effect))
                    if success_rate + effect < 1 - 1e-9
                    else "–"
                    for effect in EFFECTS
                ]
                print(f"| {mode} | {success_rate} | {icc} | " + " | ".join(cells) + " |")
    worst = max(
        point(mode, success_rate, icc, 0.0).promote
        for mode, (gate, _) in MODES.items()
        if isinstance(gate, SequentialGate) and gate.alpha == PUBLISH_GATE.alpha
        for success_rate in SUCCESS_RATES
        for icc in ICCS
    )
    error = math.sqrt(0.05 * 0.95 / runs)
    print(
        f"\nLargest false promotion of a sequential gate at alpha 0.05: {worst:.4f} "
        f"(standard error {error:.4f}).\n"
    )


def _cell(point: OperatingPoint) -> str:
    return f"{point.promote:.3f} ({point.mean_pairs:.0f})"


def _study(text: str, effects: Sequence[float]) -> Iterator[tuple[list[str], float, float, float]]:
    """(leading columns, effect, first figure, second figure) of every cell."""
    for line in text.strip().splitlines():
        columns = line.split()
        figures = [column.split("/") for column in columns if "/" in column]
        leading = [column for column in columns if "/" not in column]
        for effect, (first, second) in zip(effects, figures, strict=False):
            yield leading, effect, float(first), float(second)


def _sequential_cells(
    point: Point,
) -> Iterator[tuple[str, OperatingPoint, float, float]]:
    for (icc, n_max, success_rate), effect, promoted, pairs in _study(SEQUENTIAL_STUDY, LONG):
        mode = f"sequential{' publish' if n_max == '60' else ''}, at most {n_max}"
        ours = point(mode, float(success_rate), float(icc), effect)
        yield f"{mode}, {success_rate}, ICC {icc}, {100 * effect:+.0f}", ours, promoted, pairs


def _sequential_rates(point: Point, *, runs: int) -> Iterator[Comparison]:
    for name, ours, promoted, _ in _sequential_cells(point):
        # Four standard errors of the difference of two simulations, and a rounded last digit.
        shared = max((ours.promote + promoted) / 2, 1 / STUDY_RUNS)
        error = math.sqrt(shared * (1 - shared) * (1 / runs + 1 / STUDY_RUNS))
        yield Comparison(
            name=name, ours=ours.promote, published=promoted, allowed=4 * error + 0.0005
        )


def _sequential_pairs(point: Point) -> Iterator[Comparison]:
    for name, ours, _, pairs in _sequential_cells(point):
        # Printed without decimals; the simulations add about a tenth of a pair each.
        yield Comparison(name=name, ours=ours.mean_pairs, published=pairs, allowed=1.0)


def _fixed_figures() -> Iterator[Comparison]:
    for (pairs, success_rate), effect, *figures in _study(FIXED_STUDY, SHORT):
        rates = _rates(float(success_rate), 0.5, effect)
        for midp, published in zip((False, True), figures, strict=True):
            ours = fixed_operating_point(rates, pairs=int(pairs), alpha=0.05, midp=midp)
            yield Comparison(
                name=f"fixed{' mid-p' if midp else ''}, {pairs} pairs, {success_rate}, "
                f"{100 * effect:+.0f}",
                ours=ours.promote,
                published=published,
                allowed=0.0006,
            )


def _original_figures() -> Iterator[Comparison]:
    for (pairs, success_rate), effect, counted, core in _study(ORIGINAL_STUDY, LONG):
        rates = _rates(float(success_rate), 0.5, effect)
        name = f"original, {pairs} pairs, {success_rate}, {100 * effect:+.0f}"
        # The study enumerated the core rule and simulated the counters; both to two digits.
        error = math.sqrt(counted * (1 - counted) / STUDY_RUNS)
        yield Comparison(
            name=f"{name}, with counters",
            ours=pass_probability(int(pairs), rates=rates, reports=FailureReports()),
            published=counted,
            allowed=0.0051 + 4 * error,
        )
        yield Comparison(
            name=name,
            ours=pass_probability(int(pairs), rates=rates),
            published=core,
            allowed=0.0051,
        )


def _print_agreement(groups: dict[str, list[Comparison]]) -> bool:
    print("Against the study's figures (allowed: four standard errors and the last digit).\n")
    print("| figures | cells | met | largest difference / allowed | where |")
    print("|---|---|---|---|---|")
    for title, group in groups.items():
        worst = max(group, key=lambda each: each.ratio)
        print(
            f"| {title} | {len(group)} | {sum(each.met for each in group)} | {worst.ratio:.2f} | "
            f"{worst.name}: {worst.ours:.4f}, published {worst.published} |"
        )
    met = all(each.met for group in groups.values() for each in group)
    print(f"\nThe study's figures are {'met' if met else 'NOT met'} within simulation error.")
    return met


if __name__ == "__main__":
    raise SystemExit(main())

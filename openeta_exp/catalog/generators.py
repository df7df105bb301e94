"""How parameters become scenarios: a grid, random draws, or a Latin hypercube.

A generator is called as `generator(params, seed)`, must be pure and deterministic, and returns
one mapping from parameter to value per scenario.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence

from openeta_exp.domain.counting import counted
from openeta_exp.errors import CatalogError
from openeta_exp.wire.catalog_files import Parameter

MAX_SCENARIOS = 1_000_000
_DIGITS = 12

Value = str | bool | int | float | tuple[int | float, ...] | None
Scenario = dict[str, Value]


def linspace_grid(params: Mapping[str, Parameter], seed: int) -> list[Scenario]:
    """Every combination, in the order of declaration, the last parameter running fastest.

    Raises:
        CatalogError: The grid would exceed `MAX_SCENARIOS`.
    """
    count = math.prod(_length(spec) for spec in params.values())
    if count > MAX_SCENARIOS:
        raise CatalogError(
            f"the grid has {counted(count, 'scenario')}; at most {MAX_SCENARIOS} are allowed"
        )
    draws = random.Random(seed)
    axes = [_axis(spec, draws) for spec in params.values()]
    return [dict(zip(params, values, strict=True)) for values in itertools.product(*axes)]


def random_sample(params: Mapping[str, Parameter], seed: int) -> list[Scenario]:
    """Independent draws; every parameter of another form is drawn from its values.

    Raises:
        CatalogError: No parameter is random, or their `samples` differ.
    """
    samples = _samples(params)
    draws = random.Random(seed)
    return [{name: _draw(spec, draws) for name, spec in params.items()} for _ in range(samples)]


def latin_hypercube(params: Mapping[str, Parameter], seed: int) -> list[Scenario]:
    """Draws that fill every axis evenly: one per stratum, the strata shuffled.

    Raises:
        CatalogError: No parameter is random, or their `samples` differ.
    """
    samples = _samples(params)
    draws = random.Random(seed)
    columns = []
    for spec in params.values():
        strata = list(range(samples))
        draws.shuffle(strata)
        columns.append([_quantile(spec, (each + draws.random()) / samples) for each in strata])
    return [dict(zip(params, row, strict=True)) for row in zip(*columns, strict=True)]


def tidy(value: Value) -> Value:
    """12 significant digits, so that 0.08 + 2 * 0.02 and 0.12 are one value; -0.0 is 0.0.

    Raises:
        ValueError: The number is not finite.
    """
    if isinstance(value, tuple):
        return tuple(each for each in map(tidy, value) if isinstance(each, int | float))
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a finite number")
    return float(f"{value:.{_DIGITS}g}") + 0.0


def _length(spec: Parameter) -> int:
    if spec.choices is not None:
        return len(spec.choices)
    return spec.steps or spec.samples or 1


def _axis(spec: Parameter, draws: random.Random) -> Sequence[Value]:
    if spec.is_random:
        return [_draw(spec, draws) for _ in range(spec.samples or 0)]
    if spec.range is None or spec.steps is None:
        return _options(spec)
    low, high = spec.range
    if spec.steps == 1:
        return [low]
    span, gaps = high - low, spec.steps - 1
    if isinstance(low, int) and isinstance(high, int) and span % gaps == 0:
        return [low + index * (span // gaps) for index in range(spec.steps)]
    return [float(low + span * index / gaps) for index in range(spec.steps)]


def _options(spec: Parameter) -> Sequence[Value]:
    if spec.choices is None:
        return [spec.value]
    if all(type(each) in (int, float) for each in spec.choices) and any(
        isinstance(each, float) for each in spec.choices
    ):
        return [float(each) for each in spec.choices if isinstance(each, int | float)]
    return list(spec.choices)


def _samples(params: Mapping[str, Parameter]) -> int:
    samples = {name: spec.samples for name, spec in params.items() if spec.samples is not None}
    if not samples:
        raise CatalogError(
            "no parameter is random; give one `range`, `samples` and `distribution`, "
            "or use refractal.generators:linspace_grid"
        )
    if len(set(samples.values())) > 1:
        raise CatalogError(f"samples must be equal for all parameters, found {samples}")
    count = next(iter(samples.values()))
    if count > MAX_SCENARIOS:
        raise CatalogError(f"samples is {count}; at most {MAX_SCENARIOS} are allowed")
    return count


def _draw(spec: Parameter, draws: random.Random) -> Value:
    """One value; a uniform number is spent on it whatever its form."""
    return _quantile(spec, draws.random())


def _quantile(spec: Parameter, fraction: float) -> Value:
    """The value below which `fraction` of the distribution lies."""
    if spec.range is None:
        options = _options(spec)
        return options[min(int(fraction * len(options)), len(options) - 1)]
    low, high = float(spec.range[0]), float(spec.range[1])
    if spec.distribution == "normal" and spec.mean is not None and spec.std is not None:
        from statistics import NormalDist

        inner = min(max(fraction, 1e-12), 1 - 1e-12)
        value = NormalDist(float(spec.mean), float(spec.std)).inv_cdf(inner)
        return min(max(value, low), high)
    return low + (high - low) * fraction

"""Everything that can fail before money is spent, in one report."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import anyio

from openeta_exp.domain.episode import EpisodeOutcome, EpisodeResult
from openeta_exp.domain.identity import ExecutionId, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec, Manifest
from openeta_exp.errors import InfrastructureError, SimulatorError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.perception import Perception
from openeta_exp.ports.provider import Provider
from openeta_exp.ports.simulator import Simulator


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long the batch will take, from earlier episodes of the experiment.

    Attributes:
        basis: How many earlier episodes it rests on; 0 means the budgets are all that is known.
        wall_s: Expected, or with basis 0 the most the budgets allow.
    """

    basis: int
    episodes: int
    wall_s: float


async def run_checks(
    manifest: Manifest,
    *,
    simulator: Simulator | None,
    perception: Perception | None,
    provider: Provider,
    clock: Clock,
    timeout_s: float,
) -> tuple[Check, ...]:
    """Try everything the batch will need; each failure is reported, none stops the others.

    Args:
        simulator: None leaves simulator and perception alone.
        timeout_s: For each question to a server; building an environment may take longer.
    """

    async def tried(name: str, question: Callable[[], Awaitable[str]], limit_s: float) -> Check:
        begun_s = clock.monotonic_s()
        try:
            with anyio.fail_after(limit_s):
                detail, ok = await question(), True
        except TimeoutError:
            detail, ok = f"no answer within {limit_s:g} s", False
        except InfrastructureError as error:
            detail, ok = str(error), False
        return Check(name=name, ok=ok, detail=detail, seconds=clock.monotonic_s() - begun_s)

    checks = [await tried("provider", lambda: _provider(provider), timeout_s)]
    if simulator is None:
        return tuple(checks)
    checks.append(await tried("simulator", lambda: _simulator(simulator), timeout_s))
    if checks[-1].ok:
        checks.append(
            await tried("environments", lambda: _environments(simulator, manifest), timeout_s)
        )
    if checks[-1].ok:
        first = manifest.episodes[0]
        checks.append(
            await tried("first reset", lambda: _reset(simulator, first), first.budget.timeout_s)
        )
    if perception is not None:
        checks.append(await tried("perception", lambda: _perception(perception), timeout_s))
    return tuple(checks)


async def _provider(provider: Provider) -> str:
    return f"model {await provider.ping()} answers"


async def _simulator(simulator: Simulator) -> str:
    facts = await simulator.describe()
    return _brief(facts)


async def _perception(perception: Perception) -> str:
    return _brief(await perception.describe())


async def _environments(simulator: Simulator, manifest: Manifest) -> str:
    wanted = sorted({spec.env_id for spec in manifest.episodes})
    unknown = [env_id for env_id in wanted if not await simulator.knows(env_id)]
    if unknown:
        raise SimulatorError(f"the simulator does not know {unknown}")
    return f"{len(wanted)} known"


async def _reset(simulator: Simulator, spec: EpisodeSpec) -> str:
    """Create and reset one environment and look at what it draws."""
    async with simulator.open(spec, execution_id=ExecutionId("preflight")) as session:
        observation = await session.reset()
    dark = [camera.frame_id for camera in observation.cameras if len(camera.rgb_png) < 1000]
    if dark:
        raise SimulatorError(f"{spec.env_id}: the cameras {dark} draw nothing; check simulator.gl")
    shown = ", ".join(camera.frame_id for camera in observation.cameras) or "no camera"
    return f"{spec.env_id}: {shown}; {_brief(observation.facts)}"


def _brief(facts: JsonObject) -> str:
    return ", ".join(
        f"{name} {value}"
        for name, value in facts.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    )[:200]


def estimate(
    to_run: Sequence[EpisodeSpec], earlier: Sequence[EpisodeOutcome], *, concurrency: int
) -> Estimate:
    """Forecast the time from earlier results; without any, from the budgets."""
    results = [outcome for outcome in earlier if isinstance(outcome, EpisodeResult)]
    count = len(to_run)
    rounds = math.ceil(count / max(1, min(concurrency, count)))
    if results:
        wall_s = fmean(outcome.usage.duration_s for outcome in results) * rounds
    else:
        wall_s = max((spec.budget.timeout_s for spec in to_run), default=0.0) * rounds
    return Estimate(basis=len(results), episodes=count, wall_s=wall_s)

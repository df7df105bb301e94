"""What one episode of one arm says as evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openeta_exp.domain.episode import EpisodeFailure, EpisodeOutcome, EpisodeResult
from openeta_exp.domain.event import Arm
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.money import Prices, Tokens
from openeta_exp.domain.pair import (
    ArmObservation,
    Cost,
    Fingerprint,
    PairKey,
    PairStatus,
    total_cost,
)
from openeta_exp.domain.record import digest
from openeta_exp.domain.stop import StopReason

_HUMAN = frozenset({StopReason.NEED_HUMAN, StopReason.NEED_HUMAN_UNATTENDED})


def pair_key(spec: EpisodeSpec) -> PairKey:
    """What both arms of a pair have in common."""
    return PairKey(
        env_id=spec.env_id,
        task_id=f"{spec.env_id}: {spec.task}",
        scenario_id=digest(spec.scenario)[:16] if spec.scenario else "",
        seed=spec.seed,
        rep=spec.repeat,
    )


ENVIRONMENT_PINS = ("backend", "backend_version", "mujoco_version", "gl", "quality")


def fingerprint(
    arm: Arm,
    outcome: EpisodeOutcome,
    *,
    pins: Mapping[str, str],
    environment_pins: Sequence[str] = ENVIRONMENT_PINS,
) -> Fingerprint:
    """An arm's tree, and everything else that must be equal in both arms.

    What the simulator said of itself is taken from the outcome, so that episodes of an earlier
    run on another machine or version do not pass for comparable.
    """
    environment = {
        name: str(outcome.environment[name])
        for name in environment_pins
        if name in outcome.environment
    }
    return Fingerprint(
        tree=arm.tree_digest, pins={"settings": digest(arm.settings), **pins, **environment}
    )


def observe_arm(
    spec: EpisodeSpec,
    attempts: Sequence[EpisodeOutcome],
    *,
    arm: Arm,
    pins: Mapping[str, str],
    prices: Prices,
    environment_pins: Sequence[str] = ENVIRONMENT_PINS,
) -> ArmObservation:
    """The last attempt's verdict, if it is one, with the cost and violations of all attempts."""
    last = attempts[-1]
    codes = [code for outcome in attempts for code in outcome.violations]
    verdict = last if isinstance(last, EpisodeResult) else None
    return ArmObservation(
        key=pair_key(spec),
        status=PairStatus.INFRASTRUCTURE if verdict is None else _status(verdict),
        objective_success=verdict is not None and verdict.success,
        failure_class=last.failure_class.value if verdict is None else None,
        broken_attempts=sum(isinstance(outcome, EpisodeFailure) for outcome in attempts),
        human_requests=0 if verdict is None else _human_requests(verdict),
        safety_violations=sum(code.startswith("safety") for code in codes),
        contract_violations=sum(code.startswith("contract") for code in codes),
        cost=total_cost(_cost(outcome, prices) for outcome in attempts),
        fingerprint=fingerprint(arm, last, pins=pins, environment_pins=environment_pins),
        # Where its word on versions is not compared, that on states is not either.
        initial_state=last.initial_state_digest if environment_pins else None,
        episode_id=spec.episode_id,
    )


def _human_requests(result: EpisodeResult) -> int:
    return result.assistance.human_interventions + (result.stop_reason in _HUMAN)


def _status(result: EpisodeResult) -> PairStatus:
    if result.success_at_reset:
        return PairStatus.SOLVED_AT_RESET
    if result.success:
        return PairStatus.SUCCESS
    return PairStatus.NEED_HUMAN if result.stop_reason in _HUMAN else PairStatus.FAIL


def _cost(outcome: EpisodeOutcome, prices: Prices) -> Cost:
    usage = outcome.usage
    tokens = Tokens.of(usage.tokens)
    return Cost(
        tokens_in=tokens.read,
        tokens_out=tokens.written,
        tool_calls=usage.tool_calls,
        wall_s=usage.duration_s,
        price_usd=prices.of(tokens),
    )

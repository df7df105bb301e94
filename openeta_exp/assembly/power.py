"""`command=power`."""

from __future__ import annotations

from openeta_exp.domain.gate import Gate, NoRegressionGate, Terms
from openeta_exp.engine.draws import HeldOutPool, pairs_wanted
from openeta_exp.engine.lineage_plan import LANES
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.power_view import PowerReport, power_view
from openeta_exp.settings.command import PowerSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.statistics.agent_model import AgentModel
from openeta_exp.statistics.gate import effective_alpha
from openeta_exp.statistics.multiplicity import alpha_cap
from openeta_exp.statistics.planning import connor_pairs, plan
from openeta_exp.statistics.preflight import EFFECTS, PairPrice, design_report

_USUAL_ALPHA = 0.05
_STREAMS = 5_000
_PAIRS_IN_FULL = 300
"""Comparisons up to this size are simulated with all streams, longer ones with fewer."""


def power(settings: ExperimentSettings, asked: PowerSettings) -> int:
    """Say what it takes to find the gain, and what the configured gate would do."""
    report = power_report(settings, asked)
    console = Console()
    if asked.format == "json":
        console.text(report.to_json() + "\n")
    else:
        console.show(power_view(report))
    return 0


def power_report(settings: ExperimentSettings, asked: PowerSettings) -> PowerReport:
    """Raises: ManifestError: The held-out manifest cannot be read."""
    gate = settings.gate
    model = AgentModel(success_rate=asked.success_rate, icc=asked.icc)
    alpha = asked.alpha or _own_alpha(gate)
    held_out = None if settings.held_out is None else settings.held_out.read()
    comparisons = settings.lineage.generations * len(LANES)
    terms = Terms(
        tier=settings.lineage.tier,
        alpha_cap=alpha_cap(settings.lineage.tier, horizon=comparisons, fdr=settings.lineage.fdr),
        canary_attempts=_attempts(settings),
    )
    price = PairPrice(
        tokens=_of_both_arms(asked.tokens),
        usd=_of_both_arms(asked.usd),
        seconds=_of_both_arms(asked.seconds),
    )
    approximate = connor_pairs(
        model.against(asked.effect), effect=asked.effect, alpha=alpha, power=asked.power
    )
    pairs, tasks = pairs_wanted(gate), _tasks(gate)
    if held_out is not None:
        pool = HeldOutPool.shared(
            held_out,
            gate=gate,
            comparisons=comparisons,
            confirms=settings.lineage.confirmation_pairs > 0,
        )
        pairs, tasks = max(1, pool.pairs), max(1, pool.tasks)
    return PowerReport(
        model=model,
        alpha=alpha,
        power=asked.power,
        plan=plan(
            model,
            effect=asked.effect,
            alpha=alpha,
            power=asked.power,
            runs=max(500, min(_STREAMS, _STREAMS * _PAIRS_IN_FULL // approximate)),
        ),
        gate=gate,
        gate_alpha=effective_alpha(gate, terms),
        comparisons=comparisons,
        tasks=tasks,
        design=design_report(
            gate,
            pairs=asked.pairs or pairs,
            tasks=tasks,
            terms=terms,
            model=model,
            price=price,
            effects=sorted({*EFFECTS, asked.effect}),
        ),
    )


def _own_alpha(gate: Gate) -> float:
    return _USUAL_ALPHA if isinstance(gate, NoRegressionGate) else gate.alpha


def _of_both_arms(episode: float | None) -> float | None:
    return None if episode is None else 2 * episode


def _tasks(gate: Gate) -> int:
    """As many as the gate asks for."""
    if isinstance(gate, NoRegressionGate):
        return 1 if gate.strategy is None else gate.strategy.min_tasks
    return gate.min_tasks


def _attempts(settings: ExperimentSettings) -> int:
    """Episodes of the canary; without a manifest, as many as the gate asks for."""
    if settings.canary is not None:
        return len(settings.canary.read().episodes)
    gate = settings.gate
    if isinstance(gate, NoRegressionGate) and gate.strategy is not None:
        return gate.strategy.min_canary_attempts
    return 0

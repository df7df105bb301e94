"""`command=iterate`."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import anyio

from openeta_exp.adapters.authoring.model_reviewer import ModelReviewer
from openeta_exp.adapters.provider.meter import SpendingMeter
from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.assembly.authors import allowance, authors, check_author
from openeta_exp.assembly.forecast import forecast_lineage, measured_in
from openeta_exp.assembly.held_out import division
from openeta_exp.assembly.money import prices, spending_meter
from openeta_exp.assembly.people import keep_paused_of
from openeta_exp.assembly.provenance import behaviour, provenance
from openeta_exp.assembly.publication import publishing_registry
from openeta_exp.assembly.run import episode_world, experiment_store
from openeta_exp.assembly.splits import Splits, design, read_splits
from openeta_exp.assembly.tracking import open_tracker
from openeta_exp.assembly.world import World, baseline_tree, is_scripted, open_world
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import BatchStarted, Event, Published
from openeta_exp.domain.gate import GateTiers, NoRegressionGate, Terms
from openeta_exp.domain.generation import ExperimentResult
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.token_tally import TokenTally
from openeta_exp.engine.batch import Observers, RunEpisode
from openeta_exp.engine.calls import counting
from openeta_exp.engine.draws import HeldOutPool
from openeta_exp.engine.episode import run_episode
from openeta_exp.engine.generation import GenerationEngine, Staff
from openeta_exp.engine.lane import Workshop
from openeta_exp.engine.lineage import Lineage, LineageHistory
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.errors import SettingsError, SpendingCapError
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.lineage_view import event_line, lineage_view
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.statistics.gate import effective_alpha
from openeta_exp.statistics.multiplicity import alpha_cap
from openeta_exp.statistics.preflight import design_report


def iterate(settings: ExperimentSettings) -> int:
    """Run the generations of the lineage, or go on with them.

    A cap of `money` that is reached ends it like Ctrl-C, and is no failure: 0.
    """
    check_author(settings.author)
    splits = read_splits(settings)
    tree = baseline_tree(settings)
    console = Console()
    plan = plan_without_world(settings, splits, tree)
    result: ExperimentResult | None = None
    with experiment_store(settings) as store:
        # Whatever can be refused is refused before anything is started.
        history = LineageHistory(event for _, event in store.journal.events())
        if settings.generation:
            history.start_of(settings.generation)
        for generation, start in history.starts(tree):
            if generation == 0 or settings.generation in (None, generation):
                beginning = plan.beginning(generation, start)
                history.check_begun(beginning)
                store.check_generation(beginning)
        _check_design(plan, console)
        meter = spending_meter(settings, store.journal.spending)
        try:
            result = anyio.run(partial(_iterate, settings, splits, plan, store, meter, console))
        except* SpendingCapError:
            console.note(meter.refusal)
        receipts = {
            event.comparison_id: event.receipt
            for _, event in store.journal.events()
            if isinstance(event, Published)
        }
    if result is not None:
        console.show(lineage_view(result, receipts))
    return 0


async def _iterate(
    settings: ExperimentSettings,
    splits: Splits,
    plan: LineagePlan,
    store: FolderExperimentStore,
    meter: SpendingMeter,
    console: Console,
) -> ExperimentResult:
    registry = publishing_registry(settings)
    begun_s = time.monotonic()
    async with open_world(settings, splits.held_out, meter=meter) as world:
        found = {
            "simulator": await world.simulator.describe(),
            "perception": {} if world.perception is None else await world.perception.describe(),
        }
        plan = replace(plan, provenance=plan.provenance.model_copy(update=found))
        cost = forecast_lineage(settings, splits, measured_in(store.journal))
        # What the settings allow each role at most is for whoever asks: command=preflight.
        for sentence in cost.sentences() if cost.is_measured else cost.sentences()[:1]:
            console.note(sentence)
        told = TokenTally()
        with open_tracker(settings, console, journal=store.journal) as tracker:
            observers = Observers(
                journal=store.journal,
                tracker=tracker,
                progress=console,
                clock=world.clock,
                calls=counting(world.provider.scope),
                listeners=(meter.take, told.take, partial(_say, console)),
            )
            for _, event in store.journal.events():
                meter.take(event)
                told.take(event)
            lineage = Lineage(observers)
            engine = GenerationEngine(
                workshop=Workshop(
                    plan=plan,
                    lineage=lineage,
                    observers=observers,
                    episodes=partial(_episodes, settings, world, store),
                    registry=registry,
                ),
                staff=Staff(
                    authors=authors(settings.author, world.provider),
                    reviewer=ModelReviewer(world.provider, name=_model_name(settings)),
                    allowance=allowance(settings.author),
                ),
                store=store,
            )
            if settings.generation is None:
                result = await engine.run()
            else:
                result = await engine.run_alone(settings.generation)
    return result.model_copy(
        update={
            "tokens": meter.spent.total,
            "tokens_cut_short": max(0, meter.spent.total - told.total),
            "tokens_unanswered": meter.unanswered.total,
            "wall_s": time.monotonic() - begun_s,
            "price_usd": plan.prices.of(meter.spent),
        }
    )


def _episodes(
    settings: ExperimentSettings,
    world: World,
    store: FolderExperimentStore,
    batch: BatchStarted,
    tree: ArtifactTree,
) -> RunEpisode:
    episodes = episode_world(
        settings,
        world,
        arm=batch.arm,
        tree=tree,
        sessions=store.sessions(generation=batch.generation, phase=batch.phase),
        keep=keep_paused_of(settings, batch),
    )

    async def run(spec: EpisodeSpec) -> EpisodeOutcome:
        return await run_episode(spec, world=episodes)

    return run


def plan_without_world(
    settings: ExperimentSettings, splits: Splits, tree: ArtifactTree
) -> LineagePlan:
    """As far as it is known without asking simulator and perception what they are."""
    lineage = settings.lineage
    return LineagePlan(
        experiment_id=settings.experiment_id,
        generations=lineage.generations,
        train=splits.train,
        canary=splits.canary,
        held_out=splits.held_out,
        tree=tree,
        behaviour=behaviour(settings),
        design=design(settings, splits),
        config=settings.public_json(),
        scripted=is_scripted(settings),
        concurrency=settings.concurrency.episodes,
        provenance=provenance(settings, splits.train, simulator={}, perception={}),
        gates=GateTiers(local=settings.gate, publish=settings.gate),
        tier=lineage.tier,
        fdr=lineage.fdr,
        confirmation_pairs=lineage.confirmation_pairs,
        flakiness_pairs=lineage.flakiness_pairs,
        prices=prices(settings),
    )


def _check_design(plan: LineagePlan, console: Console) -> None:
    """Say what the gate can do with the held-out pool there is.

    Raises:
        SettingsError: It could never promote.
    """
    pool = HeldOutPool.of(plan)
    terms = Terms(
        tier=plan.tier,
        alpha_cap=alpha_cap(plan.tier, horizon=plan.comparisons, fdr=plan.fdr),
        canary_attempts=len(plan.canary.episodes),
    )
    report = design_report(plan.gate, pairs=pool.pairs, tasks=pool.tasks, terms=terms)
    if not report.can_promote:
        problems = (*report.problems, division(plan, terms))
        raise SettingsError([f"gate: {problem}" for problem in problems])
    alpha = effective_alpha(plan.gate, terms)
    if not isinstance(plan.gate, NoRegressionGate) and alpha != plan.gate.alpha:
        console.note(
            f"the ledger of lineage.tier={plan.tier} leaves one of {plan.comparisons} comparisons "
            f"alpha {alpha:.3g} of the gate's {plan.gate.alpha:g}, and more after a promotion; "
            "lineage.tier=local keeps the gate's and publishes nothing"
        )
    for sentence in report.sentences():
        console.note(sentence)


def _model_name(settings: ExperimentSettings) -> str:
    return "scripted-reviewer" if is_scripted(settings) else "model"


def _say(console: Console, event: Event) -> None:
    line = event_line(event)
    if line is not None:
        console.note(line)

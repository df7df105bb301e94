"""`command=compare`."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial

import anyio

from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.adapters.store.layout import ComparisonLayout, ExperimentLayout
from openeta_exp.assembly.catalog_check import (
    CHECKING,
    checked_once,
    note_overridden,
    refuse_unusable,
)
from openeta_exp.assembly.catalog_contestants import Contestants, gather_contestants
from openeta_exp.assembly.catalog_registered import keep_to_registered
from openeta_exp.assembly.catalog_result import Breakages, Evidence, FirstEpisodes, Tables
from openeta_exp.assembly.catalog_rows import repeats_of
from openeta_exp.assembly.catalog_world import (
    CatalogWorld,
    catalog_of,
    open_catalog,
    read_expansion,
    rows_source,
)
from openeta_exp.assembly.money import prices
from openeta_exp.assembly.run import experiment_store
from openeta_exp.assembly.tracking import open_tracker
from openeta_exp.catalog.checks_outcomes import check_outcomes
from openeta_exp.catalog.checks_reset import hidden_parameters
from openeta_exp.catalog.comparison_tables import compared_policy, curves
from openeta_exp.catalog.expansion import Expansion
from openeta_exp.domain.finding import CheckReport
from openeta_exp.domain.gate import Gate
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.policy_comparison import (
    Contrast,
    Ending,
    PolicyComparison,
    ending,
)
from openeta_exp.engine.batch import Observers
from openeta_exp.engine.policy_compare import (
    ComparedContestant,
    PolicyComparePlan,
    compare_policies,
)
from openeta_exp.engine.policy_compare_gate import sized
from openeta_exp.reporting.compare_html import compare_page
from openeta_exp.reporting.compare_view import compare_view
from openeta_exp.reporting.console import Console
from openeta_exp.settings.command import CompareSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.wire.manifest import render_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One comparison as it was asked for."""

    settings: ExperimentSettings
    command: CompareSettings
    expansion: Expansion
    repeats: int
    gate: Gate
    layout: ComparisonLayout


def compare(settings: ExperimentSettings, command: CompareSettings) -> int:
    """Run what is missing, judge, report; see `domain.policy_comparison.ending` for the code."""
    expansion = read_expansion(settings)
    repeats = repeats_of(expansion.manifest, source=rows_source(settings))
    asked = _Asked(
        settings=settings,
        command=command,
        expansion=expansion,
        repeats=repeats,
        gate=sized(
            settings.gate,
            units=len(expansion.rows) // repeats,
            tasks=len(expansion.bindings),
            complete=not command.stop_early,
        ),
        layout=ExperimentLayout.below(
            settings.output_root.absolute(), settings.experiment_id
        ).comparison,
    )
    console = Console(losses_are_news=False)
    with experiment_store(settings) as store, ExitStack() as tracking:
        told = keep_to_registered(settings, command, expansion.manifest, store.journal)
        result = anyio.run(partial(_compare, asked, store, console, tracking=tracking))
    result = result.model_copy(update={"warnings": (*result.warnings, *told)})
    _write(result, asked)
    if command.format == "json":
        console.text(result.model_dump_json(indent=2))
    else:
        console.show(compare_view(result, folder=asked.layout.folder))
    return result.exit_code


async def _compare(
    asked: _Asked, store: FolderExperimentStore, console: Console, *, tracking: ExitStack
) -> PolicyComparison:
    """
    Args:
        tracking: Takes the tracker, whose end may take a while: no simulator need be open then.
    """
    settings, begun_s = asked.settings, time.monotonic()
    async with (
        open_catalog(settings, asked.expansion, layout=asked.layout) as world,
        AsyncExitStack() as stack,
    ):
        field = await gather_contestants(settings, world, store, stack)
        console.note(CHECKING)
        report = await checked_once(world, field.policies, layout=asked.layout)
        allowed = catalog_of(settings).allow_invalid
        refuse_unusable(report, allowed=allowed)
        compared: Mapping[str, ComparedContestant] | None = None
        evidence = Evidence(asked.expansion, field.in_order, store.journal, fresh=settings.fresh)
        if allowed or not report.invalid:
            tracker = tracking.enter_context(open_tracker(settings, console, journal=store.journal))
            first = _first_episodes(asked, field, evidence, report)
            breakages = Breakages(limit=catalog_of(settings).give_up_after, note=console.note)
            observers = Observers(
                journal=store.journal,
                tracker=tracker,
                progress=console,
                clock=world.clock,
                listeners=(evidence.take, first.take, breakages.take),
            )
            first.look()
            compared = {}
            if first.may_go_on():
                compared = await compare_policies(
                    _plan(asked, field, world),
                    observers=observers,
                    may_go_on=first.may_go_on,
                    may_run=breakages.may_run,
                )
    # What is counted from here on needs no simulator.
    contrasts: tuple[Contrast, ...] = ()
    if compared is not None:
        contrasts = _contrasts(asked, field, evidence, compared)
        report = _with_outcomes(asked, field, evidence, report)
    return _result(
        asked,
        field,
        evidence,
        contrasts=contrasts,
        report=report,
        duration_s=time.monotonic() - begun_s,
    )


def _first_episodes(
    asked: _Asked, field: Contestants, evidence: Evidence, report: CheckReport
) -> FirstEpisodes:
    names = [each.name for each in field.in_order]
    return FirstEpisodes(
        asked.expansion,
        evidence,
        baseline=names[0],
        candidates=names[1:],
        hosted=field.policies,
        hidden=hidden_parameters(report.findings),
        allowed=catalog_of(asked.settings).allow_invalid,
    )


def _plan(asked: _Asked, field: Contestants, world: CatalogWorld) -> PolicyComparePlan:
    settings = asked.settings
    return PolicyComparePlan(
        experiment_id=settings.experiment_id,
        manifest=asked.expansion.manifest,
        contestants=field.in_order,
        gate=asked.gate,
        complete=not asked.command.stop_early,
        repeats=asked.repeats,
        margin=asked.command.equivalence_margin,
        attempts=catalog_of(settings).attempts,
        max_missing_share=catalog_of(settings).max_missing_share,
        concurrency=world.concurrency,
        provenance=field.provenance,
        prices=prices(settings),
        fresh=settings.fresh,
    )


def _contrasts(
    asked: _Asked,
    field: Contestants,
    evidence: Evidence,
    compared: Mapping[str, ComparedContestant],
) -> tuple[Contrast, ...]:
    """Every policy against the first."""
    tables = Tables(
        settings=asked.settings,
        expansion=asked.expansion,
        evidence=evidence,
        layout=asked.layout,
    )
    baseline = field.in_order[0].name
    return tuple(tables.contrast(baseline, name, each) for name, each in compared.items())


def _with_outcomes(
    asked: _Asked, field: Contestants, evidence: Evidence, report: CheckReport
) -> CheckReport:
    """What the checks say of the episodes that ran, besides what they said before."""
    found = check_outcomes(
        asked.expansion,
        {name: evidence.of(name) for name in field.policies},
        hidden=hidden_parameters(report.findings),
    )
    return CheckReport.of([*report.findings, *found])


def _result(
    asked: _Asked,
    field: Contestants,
    evidence: Evidence,
    *,
    contrasts: tuple[Contrast, ...],
    report: CheckReport,
    duration_s: float,
) -> PolicyComparison:
    settings, expansion = asked.settings, asked.expansion
    catalog = catalog_of(settings)
    reason, exit_code = ending(
        contrasts,
        missing_share=catalog.max_missing_share,
        gate_required=asked.command.gate_required,
    )
    overridden = bool(report.invalid) and catalog.allow_invalid
    if overridden:
        report = note_overridden(report)
    elif report.invalid:
        reason, exit_code = Ending.INVALID, report.exit_code
    outcomes = {each.name: evidence.of(each.name) for each in field.in_order}
    return PolicyComparison(
        experiment_id=settings.experiment_id,
        ok=exit_code == 0,
        exit_code=exit_code,
        reason=reason,
        gate=asked.gate,
        stopped_early=asked.command.stop_early,
        catalog=_catalog_facts(asked),
        scenarios=len(expansion.rows) // asked.repeats,
        repeats=asked.repeats,
        policies=tuple(
            compared_policy(each.arm, field.identities[each.name], expansion, outcomes[each.name])
            for each in field.in_order
        ),
        contrasts=contrasts,
        curves=curves(expansion, {name: outcomes[name] for name in field.policies}),
        checks=report,
        invalid_overridden=overridden,
        warnings=expansion.warnings,
        duration_s=duration_s,
    )


def _catalog_facts(asked: _Asked) -> JsonObject:
    """Where the episodes come from, by name and by content."""
    bindings = asked.expansion.bindings.values()
    return {
        **catalog_of(asked.settings).model_dump(mode="json"),
        "manifest_digest": asked.expansion.manifest.content_digest,
        "scenes": {each.scene.id: each.scene_digest for each in bindings},
        "tasks": {each.task.id: each.task_digest for each in bindings},
    }


def _write(result: PolicyComparison, asked: _Asked) -> None:
    """Result, page and the episodes themselves, next to the journal."""
    layout = asked.layout
    rendered = json.dumps(render_manifest(asked.expansion.manifest), indent=2)
    write_atomically(layout.episodes, rendered.encode("utf-8"))
    write_atomically(layout.report, compare_page(result).encode("utf-8"))
    write_atomically(layout.result, result.model_dump_json(indent=2).encode("utf-8") + b"\n")

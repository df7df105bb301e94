"""`command=check`, and the same checks before a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import anyio
from pydantic import ValidationError

from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.adapters.store.layout import ComparisonLayout
from openeta_exp.assembly.catalog_world import (
    CatalogWorld,
    identified,
    open_catalog,
    read_expansion,
)
from openeta_exp.catalog.arms import PolicyArm
from openeta_exp.catalog.checks import check_catalog
from openeta_exp.catalog.expansion import Expansion
from openeta_exp.catalog.findings import invalid, suspect, unusable
from openeta_exp.domain.counting import counted
from openeta_exp.domain.finding import CheckReport, Finding
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.record import Record, digest
from openeta_exp.errors import CatalogError, InfrastructureError, PolicyError
from openeta_exp.reporting.catalog_view import check_view
from openeta_exp.reporting.console import Console
from openeta_exp.settings.catalog import PlannerPolicySettings
from openeta_exp.settings.command import CheckSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.wire.check_report import check_report_json

CHECKING = "checking: some resets of every task, and one episode of every policy on every scene"


class _KeptChecks(Record):
    """What was found, and of what."""

    subject: Digest
    report: CheckReport


def check(settings: ExperimentSettings, asked: CheckSettings) -> int:
    """Run every check; see `CheckReport.exit_code`."""
    expansion = read_expansion(settings)
    console = Console()
    console.note(CHECKING)
    report = anyio.run(partial(_check, settings, expansion))
    if asked.format == "json":
        console.text(check_report_json(report, scenarios=len(expansion.rows)))
    else:
        console.show(check_view(report, warnings=expansion.warnings))
    return report.exit_code


async def _check(settings: ExperimentSettings, expansion: Expansion) -> CheckReport:
    async with open_catalog(settings, expansion, layout=None) as world:
        found: list[Finding] = []
        arms: dict[str, PolicyArm] = {}
        for name, policy in settings.policies.items():
            if isinstance(policy, PlannerPolicySettings):
                continue
            try:
                arms[name] = await identified(world, name, policy)
            except PolicyError as error:
                found.append(unusable("policy_unusable", f"policy {name}", error))
        return await checked(world, arms, found=found)


async def checked(
    world: CatalogWorld, arms: Mapping[str, PolicyArm], *, found: list[Finding] | None = None
) -> CheckReport:
    """Everything that can be known before a comparison.

    Args:
        found: What is known already; policies without an arm are part of it.
    """
    recipes = {name: each for name, each in world.recipes.items() if name in arms}
    report = await check_catalog(
        world.expansion,
        world.runner,
        recipes,
        identities={name: each.arm.tree_digest for name, each in arms.items()},
    )
    return CheckReport.of([*(found or ()), *_identities(arms), *report.findings])


def _identities(arms: Mapping[str, PolicyArm]) -> list[Finding]:
    found = [each.finding for each in arms.values() if each.finding is not None]
    known: dict[Digest, str] = {}
    for name, each in arms.items():
        other = known.setdefault(each.arm.tree_digest, name)
        if other != name:
            found.append(
                invalid(
                    "identical_policies",
                    f"policies {other} and {name} have the same code, parameters and weights: "
                    "they are one policy",
                )
            )
    return found


async def checked_once(
    world: CatalogWorld, arms: Mapping[str, PolicyArm], *, layout: ComparisonLayout
) -> CheckReport:
    """The report of an earlier run of the same comparison, unless that found it invalid."""
    subject = Digest(
        digest(
            {
                "episodes": world.expansion.manifest.content_digest,
                "policies": {name: each.arm.tree_digest for name, each in arms.items()},
            }
        )
    )
    known = _kept(layout)
    if known is not None and known.subject == subject and not known.report.invalid:
        return known.report
    report = await checked(world, arms)
    kept = _KeptChecks(subject=subject, report=report)
    write_atomically(layout.checks, kept.model_dump_json(indent=2).encode("utf-8"))
    return report


def _kept(layout: ComparisonLayout) -> _KeptChecks | None:
    try:
        return _KeptChecks.from_json(layout.checks.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def refuse_unusable(report: CheckReport, *, allowed: bool) -> None:
    """End a comparison of what cannot be built or reached as `command=check` does.

    Args:
        allowed: Whether to run what the checks object to. What cannot be built cannot be run.

    Raises:
        CatalogError: An adapter cannot be built.
        InfrastructureError: Nothing but an outage is in the way.
    """
    if report.unusable:
        raise CatalogError([each.message for each in report.unusable])
    if report.exit_code == 3 and not allowed:
        raise InfrastructureError("\n".join(each.message for each in report.invalid))


def note_overridden(report: CheckReport) -> CheckReport:
    """The report with a remark that it was not heeded."""
    return CheckReport.of(
        [
            *report.findings,
            suspect(
                "invalid_overridden",
                f"{counted(len(report.invalid), 'finding says', plural='findings say')} that "
                "this comparison means nothing; catalog.allow_invalid=true runs it all the same",
            ),
        ]
    )

"""Settings -> the episodes policies are compared on, the workers that run them, and the arms."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import assert_never

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.store.layout import ComparisonLayout
from openeta_exp.assembly.catalog_rows import repeats_of, require_comparable
from openeta_exp.catalog.arms import PolicyArm, policy_arm
from openeta_exp.catalog.environments import expand_manifest
from openeta_exp.catalog.expansion import Expansion, Tier, expand
from openeta_exp.catalog.messages import AdapterDescription
from openeta_exp.catalog.pool import WorkerPool
from openeta_exp.catalog.reading import read_catalog
from openeta_exp.catalog.runner import CatalogRunner
from openeta_exp.domain.identity import JsonObject
from openeta_exp.errors import CatalogError, OpenEtaError, PolicyError, SettingsError
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.policy import PolicyRecipe
from openeta_exp.reporting.console import Console
from openeta_exp.settings.catalog import (
    CallablePolicySettings,
    CatalogSettings,
    ChunkSettings,
    EmbeddedCatalogSettings,
    FileCatalogSettings,
    ModelServerPolicySettings,
    PlannerPolicySettings,
    PolicySettings,
    VlaEvalPolicySettings,
)
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.wire.failure_report import failure_json

_POLICIES = "openeta_exp.adapters.policy"
_EXTRA = ("websockets", "msgpack")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogWorld:
    """What episodes of policies run in.

    Attributes:
        recipes: Of every policy but a planner, by name.
    """

    expansion: Expansion
    runner: CatalogRunner
    recipes: Mapping[str, PolicyRecipe]
    clock: Clock
    concurrency: int


@contextmanager
def telling_failures(command: str, *, aloud: bool) -> Iterator[None]:
    """Say as JSON why a command fails, before it does.

    Args:
        aloud: Whether a program reads.
    """
    try:
        yield
    except* OpenEtaError as group:
        if aloud:
            Console().text(failure_json(_first(group), command=command))
        raise


def _first(group: BaseExceptionGroup[OpenEtaError]) -> OpenEtaError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def catalog_of(settings: ExperimentSettings) -> CatalogSettings:
    assert settings.catalog is not None, "the rules across sections ask for it"
    return settings.catalog


def read_expansion(settings: ExperimentSettings) -> Expansion:
    """The episodes, or those of them that are selected; no simulator is imported.

    Raises:
        CatalogError, ManifestError: With every mistake of the files or of the selection, or of
            rows that cannot be compared.
        SettingsError: A policy needs packages that are not installed.
    """
    _check_extra(settings)
    expansion = _expansion(settings)
    repeats_of(expansion.manifest, source=rows_source(settings))
    return expansion


def _expansion(settings: ExperimentSettings) -> Expansion:
    catalog = catalog_of(settings)
    match catalog:
        case FileCatalogSettings():
            expansion = expand(
                read_catalog(catalog.path),
                repeats=catalog.repeats,
                tier=Tier(catalog.tier),
                scenario_sets=catalog.scenario_sets,
                timeout_s=catalog.timeout_s,
            )
            return (
                expansion if settings.episodes is None else _selected(expansion, settings.episodes)
            )
        case EmbeddedCatalogSettings():
            manifest = settings.read_manifest()
            require_comparable(manifest, source=rows_source(settings))
            return expand_manifest(
                manifest,
                max_steps=catalog.max_steps,
                cameras=catalog.cameras,
                image_size=catalog.image_size,
                privileged=catalog.privileged,
            )
        case _:
            assert_never(catalog)


def _check_extra(settings: ExperimentSettings) -> None:
    """Model servers are spoken to by packages that not everybody has."""
    served = [
        name
        for name, policy in settings.policies.items()
        if isinstance(policy, VlaEvalPolicySettings)
    ]
    missing = [name for name in _EXTRA if find_spec(name) is None]
    if served and missing and catalog_of(settings).interpreter is None:
        raise SettingsError(
            f"policies.{served[0]}: {', '.join(missing)} is not installed; "
            "install openeta_exp[policy]"
        )


def _selected(expansion: Expansion, episode_ids: tuple[str, ...]) -> Expansion:
    manifest = expansion.manifest.select(episode_ids)
    rows = expansion.by_episode()
    kept = tuple(rows[spec.episode_id] for spec in manifest.episodes)
    used = {row.env_id for row in kept}
    return replace(
        expansion,
        manifest=manifest,
        rows=kept,
        bindings={name: each for name, each in expansion.bindings.items() if name in used},
    )


def rows_source(settings: ExperimentSettings) -> str:
    """The field that says which scenarios there are, as a message names it."""
    catalog = catalog_of(settings)
    if isinstance(catalog, FileCatalogSettings):
        return f"catalog.path = {catalog.path}"
    path = settings.manifest.path
    return "manifest.episodes" if path is None else f"manifest.path = {path}"


@asynccontextmanager
async def open_catalog(
    settings: ExperimentSettings, expansion: Expansion, *, layout: ComparisonLayout | None
) -> AsyncIterator[CatalogWorld]:
    """Workers, which start when they are first needed and end here.

    Args:
        layout: Where step records and videos go; None keeps neither.
    """
    catalog = catalog_of(settings)
    clock = SystemClock()
    workers = catalog.workers or max(
        1, min(settings.concurrency.episodes, os.cpu_count() or 1, len(expansion.rows))
    )
    async with WorkerPool(
        size=workers, interpreter=catalog.interpreter, search_path=expansion.search_path
    ) as pool:
        yield CatalogWorld(
            expansion=expansion,
            runner=CatalogRunner(
                expansion,
                pool,
                clock=clock,
                render=catalog.render,
                steps_dir=None if layout is None else layout.steps,
                video_dir=layout.videos if layout is not None and catalog.video else None,
            ),
            recipes={
                name: found
                for name, policy in settings.policies.items()
                if (found := recipe(policy)) is not None
            },
            clock=clock,
            concurrency=workers,
        )


def recipe(policy: PolicySettings) -> PolicyRecipe | None:
    """How a worker makes the policy; None for a planner, which no worker runs."""
    match policy:
        case CallablePolicySettings(target=target, params=params, requires=requires):
            return PolicyRecipe(
                factory=f"{_POLICIES}.in_process:build",
                arguments={
                    "target": target,
                    "params": params,
                    **_required(requires),
                    **_chunks(policy.chunks),
                },
            )
        case VlaEvalPolicySettings(url=url, images=images, requires=requires):
            return PolicyRecipe(
                factory=f"{_POLICIES}.vla_eval_client:build",
                arguments={
                    "url": url,
                    "images": images,
                    "connect_timeout_s": policy.connect_timeout_s,
                    "act_timeout_s": policy.act_timeout_s,
                    **_required(requires),
                    **_chunks(policy.chunks),
                },
            )
        case ModelServerPolicySettings(target=target, params=params):
            return PolicyRecipe(
                factory=f"{_POLICIES}.model_server:build",
                arguments={"target": target, "params": params},
            )
        case PlannerPolicySettings():
            return None
        case _:
            assert_never(policy)


def _required(requires: tuple[str, ...] | None) -> JsonObject:
    return {} if requires is None else {"requires": list(requires)}


def _chunks(chunks: ChunkSettings | None) -> JsonObject:
    if chunks is None:
        return {}
    return {
        "chunk_size": chunks.size,
        "ensemble": chunks.ensemble,
        "ema_alpha": chunks.ema_alpha,
        "replan_every": chunks.replan_every,
    }


async def identified(world: CatalogWorld, name: str, policy: PolicySettings) -> PolicyArm:
    """Who a policy is, by its code, its weights or its own word.

    Raises:
        CatalogError: It cannot be built, or its weights do not exist.
        PolicyError: Its server cannot be reached.
    """
    assert not isinstance(policy, PlannerPolicySettings), "a planner is identified by its settings"
    try:
        described = await world.runner.describe_policy(world.recipes[name])
    except PolicyError as error:
        if isinstance(policy, VlaEvalPolicySettings):
            raise
        raise CatalogError(f"policies.{name}.target = {policy.target!r}: {error}") from error
    return policy_arm(
        name,
        world.recipes[name],
        described,
        weights=policy.weights,
        revision=policy.revision,
        search_path=world.expansion.search_path,
        scripted=policy.scripted,
    )


async def host_facts(world: CatalogWorld) -> AdapterDescription:
    """What runs the adapters, as the first of them reports it.

    Raises:
        CatalogError: It cannot be built, or does not offer the task.
        SimulatorError: Its process died.
    """
    env_id = world.expansion.manifest.episodes[0].env_id
    try:
        return await world.runner.describe_adapter(env_id)
    except CatalogError as error:
        raise CatalogError(f"{world.expansion.bindings[env_id].named}: {error}") from error

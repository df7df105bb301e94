"""The arms of a comparison of policies: who they are, and how their episodes are run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from openeta_exp.adapters.provider.meter import SpendingMeter
from openeta_exp.adapters.store.experiment_store import FolderExperimentStore
from openeta_exp.assembly.catalog_world import CatalogWorld, catalog_of, host_facts, identified
from openeta_exp.assembly.money import spending_meter
from openeta_exp.assembly.provenance import behaviour, provenance
from openeta_exp.assembly.run import episode_world
from openeta_exp.assembly.world import baseline_tree, is_scripted, open_world
from openeta_exp.catalog.arms import PolicyArm
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import Arm, Provenance
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.record import digest
from openeta_exp.engine.batch import RunEpisode
from openeta_exp.engine.calls import CountCalls, counting, no_calls
from openeta_exp.engine.episode import run_episode
from openeta_exp.engine.policy_compare import GENERATION, POLICY_PHASE, Contestant
from openeta_exp.ports.policy import PolicyRecipe
from openeta_exp.settings.catalog import PlannerPolicySettings
from openeta_exp.settings.experiment import ExperimentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestants:
    """The arms in the order of the command line.

    Attributes:
        policies: Those that workers run, by name.
        identities: What makes each of them what it is.
    """

    in_order: tuple[Contestant, ...]
    policies: Mapping[str, PolicyArm]
    identities: Mapping[str, JsonObject]
    provenance: Provenance


async def gather_contestants(
    settings: ExperimentSettings,
    world: CatalogWorld,
    store: FolderExperimentStore,
    stack: AsyncExitStack,
) -> Contestants:
    """Ask every policy who it is, and start what a planner needs.

    Args:
        stack: Ends what was started.

    Raises:
        CatalogError: A policy or the adapter cannot be built.
        PolicyError: A server cannot be reached.
    """
    host = await host_facts(world)
    policies: dict[str, PolicyArm] = {}
    arms: dict[str, Arm] = {}
    meter = spending_meter(settings, store.journal.spending)
    runs: dict[str, RunEpisode] = {}
    calls: dict[str, CountCalls] = {}
    common: JsonObject = {
        "vla_eval": host.api,
        "python": host.python,
        "render": catalog_of(settings).render,
    }
    for name, policy in settings.policies.items():
        if isinstance(policy, PlannerPolicySettings):
            arms[name] = planner_arm(settings, name, common)
            runs[name], calls[name] = await _planner(
                settings, world, store, stack, arms[name], meter=meter
            )
        else:
            policies[name] = await identified(world, name, policy)
            known = policies[name].arm
            # Pins of a pair are the arm's settings, so these must be what all arms have in common.
            arms[name] = known.model_copy(update={"settings": common})
            runs[name] = _policy(world, world.recipes[name], arms[name])
    identities: dict[str, JsonObject] = {
        name: policies[name].arm.settings if name in policies else behaviour(settings)
        for name in arms
    }
    facts: JsonObject = {
        "adapter": host.adapter_class,
        "vla_eval": host.api,
        "python": host.python,
        "form": host.form,
    }
    return Contestants(
        in_order=tuple(
            Contestant(
                arm=arms[name],
                run=runs[name],
                config={**settings.public_json(), "policy": identities[name]},
                calls=calls.get(name, no_calls),
            )
            for name in settings.policies
        ),
        policies=policies,
        identities=identities,
        provenance=provenance(
            settings,
            world.expansion.manifest,
            simulator=facts,
            perception={},
        ),
    )


def _policy(world: CatalogWorld, recipe: PolicyRecipe, arm: Arm) -> RunEpisode:
    digest_of_arm = arm.content_digest

    async def run(spec: EpisodeSpec) -> EpisodeOutcome:
        return await world.runner.run_episode(spec, policy=recipe, arm=digest_of_arm)

    return run


def planner_arm(settings: ExperimentSettings, name: str, common: JsonObject) -> Arm:
    """Who the configured planner is: all that decides what it does, and the tree it starts from.

    Args:
        common: What all arms have in common.

    Raises:
        ArtifactError: The baseline tree has broken files.
    """
    tree = baseline_tree(settings).content_digest
    identity: JsonObject = {"planner": behaviour(settings), "tree": tree}
    return Arm(
        label=name,
        tree_digest=Digest(digest(identity)),
        settings=common,
        scripted=is_scripted(settings),
    )


async def _planner(
    settings: ExperimentSettings,
    world: CatalogWorld,
    store: FolderExperimentStore,
    stack: AsyncExitStack,
    arm: Arm,
    *,
    meter: SpendingMeter,
) -> tuple[RunEpisode, CountCalls]:
    tools = await stack.enter_async_context(
        open_world(settings, world.expansion.manifest, meter=meter)
    )
    episodes = episode_world(
        settings,
        tools,
        arm=arm,
        tree=baseline_tree(settings),
        sessions=store.sessions(generation=GENERATION, phase=f"{POLICY_PHASE}{arm.label}"),
    )

    async def run(spec: EpisodeSpec) -> EpisodeOutcome:
        return await run_episode(spec, world=episodes)

    return run, counting(tools.provider.scope)

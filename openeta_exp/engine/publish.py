"""Share what the last gate has promoted."""

from __future__ import annotations

from functools import partial

import anyio

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Candidate, Promotion
from openeta_exp.domain.event import Published
from openeta_exp.domain.gate import Tier
from openeta_exp.domain.publication import Publication, meaning_of
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.engine.lineage_plan import LineagePlan
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.registry import Registry


async def publish(
    registry: Registry,
    *,
    plan: LineagePlan,
    candidate: Candidate,
    promotion: Promotion,
    verdict: GateVerdict,
    tree: ArtifactTree,
    clock: Clock,
) -> Published | None:
    """Offer a promoted grasp strategy to the registry, if its gate was fit to publish.

    Skills stay with their experiment: they speak about its tasks.

    Args:
        tree: What the candidate was compared with.

    Raises:
        StoreError: The registry could not keep it.
    """
    artifact = candidate.artifact
    if plan.tier is not Tier.PUBLISH or artifact.kind is not ArtifactKind.GRASP_STRATEGY:
        return None
    before = tree.get(artifact.kind, candidate.supersedes or artifact.name)
    publication = Publication(
        artifact=artifact,
        replaces=None if before is None else before.content_digest,
        replaces_meaning=None if before is None else meaning_of(before),
        experiment_id=plan.experiment_id,
        promotion=promotion,
        verdict=verdict,
        scripted=plan.scripted,
        openeta_exp_version=plan.provenance.openeta_exp_version,
        git_commit=plan.provenance.git_commit,
    )
    # In a thread, because another process may hold the registry for a moment.
    receipt = await anyio.to_thread.run_sync(
        partial(registry.publish, publication, at_s=clock.unix_s())
    )
    return Published(
        experiment_id=plan.experiment_id,
        generation=promotion.generation,
        comparison_id=promotion.comparison_id,
        receipt=receipt,
        at_s=clock.unix_s(),
    )

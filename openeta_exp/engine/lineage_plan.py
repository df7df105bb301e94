"""A lineage of generations as it was asked for, and the batches it consists of."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.event import Arm, BatchStarted, Provenance
from openeta_exp.domain.gate import (
    Gate,
    GateTiers,
    Tier,
)
from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.money import Prices
from openeta_exp.domain.record import digest

LANES = (ArtifactKind.GRASP_STRATEGY, ArtifactKind.SKILL)
"""In this order, each on the tree the former left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineagePlan:
    """Everything about a lineage that is fixed before its first episode.

    Attributes:
        design: What decides how candidates are judged; the same experiment keeps to it.
        held_out: The pool; each comparison gets a part of it that no other one has seen.
        flakiness_pairs: Pairs of the first tree with itself, on train-side keys, before anything
            else; 0 for none.
        confirmation_pairs: Fresh pairs of last against first tree at the end; 0 for none.
    """

    experiment_id: str
    generations: int
    train: Manifest
    canary: Manifest
    held_out: Manifest
    tree: ArtifactTree
    behaviour: JsonObject
    design: JsonObject
    config: JsonObject
    scripted: bool
    concurrency: int
    provenance: Provenance
    gates: GateTiers
    tier: Tier
    fdr: float
    confirmation_pairs: int
    flakiness_pairs: int
    prices: Prices

    @property
    def gate(self) -> Gate:
        return self.gates.of(self.tier)

    @property
    def comparisons(self) -> int:
        """Held-out tests that are planned: the ledger's horizon."""
        return self.generations * len(LANES)

    @property
    def pins(self) -> dict[str, str]:
        """What must be the same in both arms besides settings and simulator."""
        provenance = self.provenance
        return {
            "openeta_exp": provenance.openeta_exp_version,
            "prompt": provenance.prompt_digest,
            "packages": digest(dict[str, JsonValue](provenance.packages)),
        }

    def beginning(self, generation: int, tree: ArtifactTree) -> GenerationRecord:
        """What a generation that starts from this tree begins with."""
        return GenerationRecord(
            experiment_id=self.experiment_id,
            generation=generation,
            baseline_digest=tree.content_digest,
            behaviour=self.behaviour,
            design=self.design,
        )

    def arm(self, label: str, tree: ArtifactTree, *, twin: bool = False) -> Arm:
        """An arm; a twin behaves the same and is told apart from it all the same."""
        return Arm(
            label=label,
            tree_digest=tree.content_digest,
            settings={**self.behaviour, "twin": True} if twin else self.behaviour,
            scripted=self.scripted,
        )

    def batch(
        self,
        phase: str,
        *,
        label: str,
        generation: int,
        tree: ArtifactTree,
        manifest: Manifest,
        at_s: float,
        twin: bool = False,
    ) -> BatchStarted:
        return BatchStarted(
            batch_id=self.batch_id(generation, phase),
            experiment_id=self.experiment_id,
            generation=generation,
            phase=phase,
            arm=self.arm(label, tree, twin=twin),
            manifest=manifest,
            concurrency=self.concurrency,
            config=self.config,
            provenance=self.provenance,
            at_s=at_s,
        )

    def batch_id(self, generation: int, phase: str) -> str:
        return f"{self.experiment_id}-g{generation:03d}-{phase}"

    def comparison_id(self, generation: int, lane: ArtifactKind, stage: str) -> str:
        """Sorts in the order in which comparisons are run."""
        return f"{self.experiment_id}-g{generation:03d}-{LANES.index(lane)}-{lane.value}-{stage}"

"""Promoted strategies that ask to be shared."""

from __future__ import annotations

from openeta_exp.domain.artifact import Artifact
from openeta_exp.domain.candidate import Promotion
from openeta_exp.domain.gate import SequentialGate, Terms
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.publication import Publication, meaning_of
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.statistics.gate import judge
from tests.generations import strategy
from tests.statistics.paired_arms import story

FIRST, SECOND, THIRD = (strategy(close_steps, revision=close_steps) for close_steps in (2, 3, 4))


def verdict() -> GateVerdict:
    """A promotion, as the gate words it."""
    return judge(story("w" * 20 + "b" * 4), gate=SequentialGate(), terms=Terms())


def publication(
    artifact: Artifact = FIRST, *, over: Artifact | None = None, experiment_id: str = "exp"
) -> Publication:
    """`artifact` has won against `over`."""
    return Publication(
        artifact=artifact,
        replaces=None if over is None else over.content_digest,
        replaces_meaning=None if over is None else meaning_of(over),
        experiment_id=experiment_id,
        promotion=Promotion(
            generation=0,
            kind=artifact.kind.value,
            name=artifact.name,
            from_digest=Digest("a" * 64),
            to_digest=Digest("b" * 64),
            candidate_digest=artifact.content_digest,
            comparison_id=f"{experiment_id}-g000-0-grasp_strategy-held-out",
            reasons=("superior",),
        ),
        verdict=verdict(),
        scripted=True,
        openeta_exp_version="0.1.0",
        git_commit=None,
    )

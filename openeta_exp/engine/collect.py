"""Skill changes that sessions made, gathered into at most one candidate.

Only episodes that the checker verified may speak for a change. Authors word the same change
differently each time, so variants of one skill that say nearly the same are one cluster, and the
most central text of the largest cluster is the candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from openeta_exp.domain.artifact import Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Candidate
from openeta_exp.domain.counting import counted

SAME_CHANGE = 0.8
"""Similarity of two texts, 0 to 1, from which they count as one change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTree:
    """What a session's artifacts looked like in the end.

    Attributes:
        verified: The environment's checker confirmed the episode's success.
    """

    episode_id: str
    verified: bool
    tree: ArtifactTree


@dataclass(frozen=True, slots=True)
class _Variant:
    artifact: Artifact
    episode_ids: tuple[str, ...]


def collect_skill_change(
    sessions: Sequence[SessionTree], *, baseline: ArtifactTree
) -> Candidate | None:
    """The best supported change of a skill, or None if no verified session changed one."""
    variants = _variants(sessions, baseline)
    clusters = [
        cluster for each in variants.values() for cluster in _clusters(sorted(each, key=_order))
    ]
    if not clusters:
        return None
    best = max(clusters, key=lambda cluster: (_support(cluster), _order(_centre(cluster))))
    centre = _centre(best)
    episode_ids = tuple(sorted({each for variant in best for each in variant.episode_ids}))
    return Candidate(
        artifact=centre.artifact,
        supersedes=None,
        parent_digest=baseline.content_digest,
        origin="session",
        rationale=(
            f"{counted(len(best), 'variant')} of one change in "
            f"{counted(len(episode_ids), 'verified session')}"
        ),
        supporting_episode_ids=episode_ids,
    )


def _variants(
    sessions: Sequence[SessionTree], baseline: ArtifactTree
) -> Mapping[str, list[_Variant]]:
    """Distinct changed texts by skill name, each with the sessions that hold it."""
    found: dict[str, dict[str, _Variant]] = {}
    for session in sessions:
        if not session.verified:
            continue
        for artifact in session.tree.changed_from(baseline):
            if artifact.kind is not ArtifactKind.SKILL:
                continue
            texts = found.setdefault(artifact.name, {})
            known = texts.get(artifact.content_digest, _Variant(artifact, ()))
            texts[artifact.content_digest] = _Variant(
                artifact, (*known.episode_ids, session.episode_id)
            )
    return {name: list(texts.values()) for name, texts in found.items()}


def _clusters(variants: Sequence[_Variant]) -> list[list[_Variant]]:
    clusters: list[list[_Variant]] = []
    for variant in variants:
        home = next((each for each in clusters if _alike(each[0], variant) >= SAME_CHANGE), None)
        if home is None:
            clusters.append([variant])
        else:
            home.append(variant)
    return clusters


def _centre(cluster: Sequence[_Variant]) -> _Variant:
    """The variant most like all the others, weighted by how often each occurs."""
    return max(
        cluster,
        key=lambda one: (
            sum(_alike(one, other) * len(other.episode_ids) for other in cluster),
            _order(one),
        ),
    )


def _support(cluster: Sequence[_Variant]) -> int:
    return sum(len(variant.episode_ids) for variant in cluster)


def _alike(first: _Variant, second: _Variant) -> float:
    words = (first.artifact.text.split(), second.artifact.text.split())
    return SequenceMatcher(None, *words, autojunk=False).ratio()


def _order(variant: _Variant) -> str:
    return variant.artifact.content_digest

"""The three manifests of a lineage, and the design of its comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openeta_exp.domain.counting import counted
from openeta_exp.domain.gate import uses_repeats
from openeta_exp.domain.identity import EpisodeId, JsonObject
from openeta_exp.domain.manifest import Manifest, Split, other_seeds, overlap
from openeta_exp.domain.pair import PairKey
from openeta_exp.engine.observe_arm import pair_key
from openeta_exp.errors import SettingsError
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.manifest import ManifestSettings

_CANARY_EPISODES = 10
"""Enough for a smoke test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Train is learnt from, canary is a smoke test, held-out is seen by the gate alone."""

    train: Manifest
    canary: Manifest
    held_out: Manifest


def read_splits(settings: ExperimentSettings) -> Splits:
    """The three manifests; a canary that is not named is made.

    Whatever would end a comparison is refused here, before a train episode is paid for.

    Raises:
        SettingsError: The held-out manifest is missing, two manifests overlap, or one holds rows
            that no comparison, or not this gate, can use.
        ManifestError: One cannot be read.
    """
    if settings.held_out is None:
        raise SettingsError(
            "held_out: is not set; `command=iterate` needs episodes that only the gate sees: "
            "held_out.path=FILE, or e.g. `+manifest@held_out=libero_object_heldout`"
        )
    train, held_out = settings.read_manifest(), settings.held_out.read()
    if settings.canary is not None:
        canary = settings.canary.read()
    else:
        canary = other_seeds(
            train,
            unlike=[held_out],
            at_least=settings.lineage.canary_episodes,
            at_most=_CANARY_EPISODES,
        )
    splits = Splits(train=train, canary=canary, held_out=held_out)
    problems: list[str] = []
    named = {"manifest": splits.train, "canary": splits.canary, "held_out": splits.held_out}
    for first, second in (("manifest", "canary"), ("manifest", "held_out"), ("canary", "held_out")):
        shared = overlap(named[first], named[second])
        if shared:
            problems.append(
                f"{second}: {counted(len(shared), 'episode is', plural='episodes are')} the "
                "same environment and seed as in "
                f"{first}, e.g. {shared[0]}; what was trained on cannot judge"
            )
    for name, split in (("manifest", Split.TRAIN), ("held_out", Split.HELD_OUT)):
        if named[name].split not in (None, split):
            problems.append(f"{name}: is marked {named[name].split}; it must be {split}")
    if settings.canary is not None:
        problems += _same_rows(canary, source=_source(settings.canary, "canary"))
    problems += _same_rows(held_out, source=_source(settings.held_out, "held_out"))
    if not uses_repeats(settings.gate):
        problems += _reruns(
            held_out, source=_source(settings.held_out, "held_out"), mode=settings.gate.mode
        )
    if problems:
        raise SettingsError(problems)
    return splits


def _source(settings: ManifestSettings, field: str) -> str:
    return f"{field}.episodes" if settings.path is None else f"{field}.path = {settings.path}"


def _same_rows(manifest: Manifest, *, source: str) -> list[str]:
    """Rows that would be one and the same pair."""
    found: dict[PairKey, list[EpisodeId]] = {}
    for spec in manifest.episodes:
        found.setdefault(pair_key(spec), []).append(spec.episode_id)
    alike = [_listed(rows) for rows in found.values() if len(rows) > 1]
    if not alike:
        return []
    return [
        f"{source}: rows {'; '.join(alike)} are the same environment, task, seed and repeat and "
        "differ in their limits only, but a comparison runs an episode under one set of limits; "
        "keep one of them, or give the others seeds of their own"
    ]


def _reruns(manifest: Manifest, *, source: str, mode: str) -> list[str]:
    """Rows that would be the same episode again."""
    units: dict[PairKey, dict[PairKey, EpisodeId]] = {}
    for spec in manifest.episodes:
        key = pair_key(spec)
        units.setdefault(key.unit, {}).setdefault(key, spec.episode_id)
    rerun = [list(rows.values()) for rows in units.values() if len(rows) > 1]
    if not rerun:
        return []
    return [
        f"{source}: repeats episodes ({len(rerun)} of them, e.g. rows {_listed(rerun[0])}), but "
        f"gate.mode = {mode} takes pairs for independent, which reruns are not; give each row a "
        "seed of its own, or use gate=anytime"
    ]


def _listed(rows: Sequence[EpisodeId]) -> str:
    return f"{', '.join(rows[:-1])} and {rows[-1]}"


def design(settings: ExperimentSettings, splits: Splits) -> JsonObject:
    """What decides how candidates are made and judged: the same experiment keeps to it.

    What may be spent is left out: a lineage that a cap has stopped goes on with a higher one.
    """
    manifests = {"manifest": splits.train, "canary": splits.canary, "held_out": splits.held_out}
    return {
        **{
            name: {"episodes": len(each.episodes), "digest": each.content_digest[:12]}
            for name, each in manifests.items()
        },
        "gate": settings.gate.model_dump(mode="json"),
        "lineage": settings.lineage.model_dump(mode="json", exclude={"canary_episodes"}),
        "author": settings.author.model_dump(mode="json", include={"kind"}),
    }

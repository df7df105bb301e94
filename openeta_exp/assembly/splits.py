"""The three manifests of a lineage, and the design of its comparisons."""

from __future__ import annotations

from dataclasses import dataclass

from openeta_exp.domain.identity import JsonObject
from openeta_exp.domain.manifest import Manifest, Split, other_seeds, overlap
from openeta_exp.errors import SettingsError
from openeta_exp.settings.experiment import ExperimentSettings

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

    Raises:
        SettingsError: The held-out manifest is missing, or two of them overlap.
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
                f"{second}: {len(shared)} episodes are the same environment and seed as in "
                f"{first}, e.g. {shared[0]}; what was trained on cannot judge"
            )
    for name, split in (("manifest", Split.TRAIN), ("held_out", Split.HELD_OUT)):
        if named[name].split not in (None, split):
            problems.append(f"{name}: is marked {named[name].split}; it must be {split}")
    if problems:
        raise SettingsError(problems)
    return splits


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

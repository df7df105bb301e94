"""The three manifests of a lineage, and the design of its comparisons."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from openeta_exp.assembly.environments import require_known, source_of
from openeta_exp.domain.gate import uses_repeats
from openeta_exp.domain.identity import EpisodeId, JsonObject
from openeta_exp.domain.manifest import (
    EpisodeSpec,
    Manifest,
    Place,
    Split,
    other_seeds,
    overlap,
    place,
)
from openeta_exp.domain.pair import PairKey
from openeta_exp.embedded.simulator.libero_suites import initial_states
from openeta_exp.engine.observe_arm import pair_key
from openeta_exp.errors import SettingsError
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.manifest import ManifestSettings
from openeta_exp.settings.world import EmbeddedSimulatorSettings
from openeta_exp.wire.explain import show

_CANARY_EPISODES = 10
"""Enough for a smoke test."""

_REMEDIES = {
    "seed": "keep one seed of each state, and take more tasks for more pairs",
    "task": "other words make no other episode: keep one of them, or give it a seed of its own",
    "scenario": "no session is given it: keep one of them, or give it a seed of its own",
}
"""What does not make another episode, and what to do instead."""


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
        ManifestError: One cannot be read, or no seed is left to make a canary of.
    """
    if settings.held_out is None:
        raise SettingsError(
            "held_out: is not set; `command=iterate` needs episodes that only the gate sees: "
            "held_out.path=FILE, or e.g. `+manifest@held_out=libero_object_heldout`"
        )
    named = {"manifest": (train := settings.read_manifest())}
    if settings.canary is not None:
        named["canary"] = settings.canary.read()
    named["held_out"] = held_out = settings.held_out.read()
    for name, section in _sections(settings).items():
        require_known(settings, named[name], source=source_of(section, name))
    states = _initial_states(settings, named.values())
    problems = list(_problems(settings, named, states))
    if problems:
        raise SettingsError(problems)
    canary = named.get("canary") or other_seeds(
        train,
        unlike=[held_out],
        states=states,
        at_least=settings.lineage.canary_episodes,
        at_most=_CANARY_EPISODES,
    )
    return Splits(train=train, canary=canary, held_out=held_out)


def _initial_states(
    settings: ExperimentSettings, manifests: Iterable[Manifest]
) -> Mapping[str, int]:
    """See `place`. What a seed means to a simulator of others is not known here."""
    if not isinstance(settings.simulator, EmbeddedSimulatorSettings):
        return {}
    return initial_states(spec.env_id for each in manifests for spec in each.episodes)


def _sections(settings: ExperimentSettings) -> dict[str, ManifestSettings]:
    """Those that are set, by name."""
    sections = {
        "manifest": settings.manifest,
        "canary": settings.canary,
        "held_out": settings.held_out,
    }
    return {name: section for name, section in sections.items() if section is not None}


def _problems(
    settings: ExperimentSettings, named: Mapping[str, Manifest], states: Mapping[str, int]
) -> Iterator[str]:
    sources = {name: source_of(section, name) for name, section in _sections(settings).items()}
    for first, second in itertools.combinations(named, 2):
        shared = overlap(named[first], named[second], states=states)
        if shared:
            (known, spec), more = shared[0], _more(len(shared))
            yield (
                f"{sources[second]}: row {spec.episode_id}: seed = {spec.seed}: "
                f"{_same_as(spec, known, states, of=f' of {sources[first]}')}{more}; what was "
                "trained on cannot judge: give one of them other seeds"
            )
    for name, split in (("manifest", Split.TRAIN), ("held_out", Split.HELD_OUT)):
        if named[name].split not in (None, split):
            yield f"{name}: is marked {named[name].split}; it must be {split}"
    if "canary" in named:
        yield from _same_rows(named["canary"], source=sources["canary"])
    held_out, source = named["held_out"], sources["held_out"]
    yield from _same_rows(held_out, source=source)
    yield from _same_places(held_out, source=source, states=states)
    if not uses_repeats(settings.gate):
        yield from _reruns(held_out, source=source, mode=settings.gate.mode)


def _same_as(
    spec: EpisodeSpec, known: EpisodeSpec, states: Mapping[str, int], *, of: str = ""
) -> str:
    if spec.seed == known.seed:
        return f"is the same environment and seed as row {known.episode_id}{of}"
    return (
        f"starts from the same state as row {known.episode_id}{of}, seed = {known.seed}, because "
        f"{spec.env_id} has {states[spec.env_id]} initial states and takes the seed modulo that"
    )


def _more(rows: int) -> str:
    return "" if rows == 1 else f" ({rows} such rows)"


def _same_places(manifest: Manifest, *, source: str, states: Mapping[str, int]) -> Iterator[str]:
    """Rows that would pass for other episodes than they are, by a seed or by words.

    Whatever the gate: one that can use reruns knows them by their `repeat`.
    """
    first: dict[Place, EpisodeSpec] = {}
    alike: dict[str, list[tuple[EpisodeSpec, EpisodeSpec]]] = {}
    for spec in manifest.episodes:
        known = first.setdefault(place(spec, states), spec)
        for field in _REMEDIES:
            if getattr(spec, field) != getattr(known, field):
                alike.setdefault(field, []).append((spec, known))
                break
    for field, rows in alike.items():
        spec, known = rows[0]
        yield (
            f"{source}: row {spec.episode_id}: {field} = {show(getattr(spec, field))}: "
            f"{_same_as(spec, known, states)}{_more(len(rows))}; {_REMEDIES[field]}"
        )


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

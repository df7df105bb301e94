"""Which rows can be compared: every pair once, every task under one name, all equally often."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec, Manifest, Place, place
from openeta_exp.embedded.simulator.libero_suites import initial_states
from openeta_exp.engine.observe_arm import pair_key
from openeta_exp.errors import CatalogError

_SHOWN = 6
"""Rows that a sentence names at most."""


def require_comparable(manifest: Manifest, *, source: str) -> None:
    """Refuse rows of a planner's manifest that policies cannot be compared on.

    Args:
        source: Where the rows are written.

    Raises:
        CatalogError: With a sentence for each kind of mistake.
    """
    problems = [
        *_same_pairs(manifest, source),
        *_same_states(manifest, source),
        *_other_words(manifest, source),
    ]
    if problems:
        raise CatalogError(problems)


def _same_pairs(manifest: Manifest, source: str) -> Iterator[str]:
    alike = _alike((pair_key(spec), spec.episode_id) for spec in manifest.episodes)
    if alike:
        yield (
            f"{source}: rows {_told(alike)} are the same environment, task, seed and repeat and "
            "differ in their limits only, but a comparison runs an episode under one set of "
            "limits; keep one of them, or give the others another seed"
        )


def _same_states(manifest: Manifest, source: str) -> Iterator[str]:
    states = initial_states(spec.env_id for spec in manifest.episodes)
    first: dict[Place, EpisodeSpec] = {}
    for spec in manifest.episodes:
        known = first.setdefault(place(spec, states), spec)
        if known.seed != spec.seed:
            yield (
                f"{source}: row {spec.episode_id}: seed = {spec.seed}: starts from the same state "
                f"as row {known.episode_id}, seed = {known.seed}, because {spec.env_id} has "
                f"{states[spec.env_id]} initial states and takes the seed modulo that; give it "
                "another seed, or write both with one seed and another repeat"
            )
            return


def _other_words(manifest: Manifest, source: str) -> Iterator[str]:
    first: dict[str, EpisodeSpec] = {}
    for spec in manifest.episodes:
        known = first.setdefault(spec.env_id, spec)
        if known.task != spec.task:
            yield (
                f"{source}: row {spec.episode_id}: task = {spec.task!r}: row {known.episode_id} "
                f"calls the task of {spec.env_id} {known.task!r}, and a policy is told one text "
                "for an environment; write one of them in both"
            )
            return


def repeats_of(manifest: Manifest, *, source: str) -> int:
    """How often every scenario is run.

    Args:
        source: Where the rows are written.

    Raises:
        CatalogError: Not all of them equally often.
    """
    runs: dict[Hashable, list[EpisodeId]] = {}
    for spec in manifest.episodes:
        runs.setdefault(pair_key(spec).unit, []).append(spec.episode_id)
    fewest, most = (choice(runs.values(), key=len) for choice in (min, max))
    if len(fewest) < len(most):
        raise CatalogError(
            f"{source}: rows {_listed(most)} are one scenario, which is run {len(most)} times, "
            f"and that of {_listed(fewest)} {_times(len(fewest))}; a comparison needs every "
            "scenario equally often: give each row another seed, or take as many rows of each"
        )
    return len(most)


def _alike(rows: Iterable[tuple[Hashable, EpisodeId]]) -> list[list[EpisodeId]]:
    found: dict[Hashable, list[EpisodeId]] = {}
    for key, episode_id in rows:
        found.setdefault(key, []).append(episode_id)
    return [each for each in found.values() if len(each) > 1]


def _told(groups: list[list[EpisodeId]]) -> str:
    words = "; ".join(map(_listed, groups[:_SHOWN]))
    return words if len(groups) <= _SHOWN else f"{words}; and others"


def _listed(rows: list[EpisodeId]) -> str:
    if len(rows) > _SHOWN:
        return f"{', '.join(rows[:_SHOWN])} and {len(rows) - _SHOWN} more"
    return " and ".join(filter(None, (", ".join(rows[:-1]), rows[-1])))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"

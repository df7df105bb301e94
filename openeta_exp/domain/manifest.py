"""What to run: an ordered set of episode specs with unique ids."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from openeta_exp.domain.budget import Budget
from openeta_exp.domain.identity import Digest, EpisodeId, JsonObject
from openeta_exp.domain.record import Record, digest
from openeta_exp.errors import ManifestError

_PADDED = re.compile(r"(openeta/libero_.+_task)0+([0-9]+-v0)")


class Split(StrEnum):
    """Train proposes, canary is the cheap first comparison, held-out is seen only by the gate."""

    TRAIN = "train"
    CANARY = "canary"
    HELD_OUT = "held-out"


class EpisodeSpec(Record):
    """The request for one episode: one environment, one seed, one task."""

    episode_id: EpisodeId
    env_id: str = Field(min_length=1)
    task: str = Field(min_length=1)
    """The goal in natural language."""
    seed: int = Field(default=0, strict=True)
    """Selects the initial state and seeds every random draw of the environment."""
    repeat: int = Field(default=0, ge=0, strict=True)
    """Repeat index: the same episode again, as independent evidence."""
    budget: Budget = Budget()
    scenario: JsonObject = Field(default_factory=dict)
    """Values a catalog's scenario gives to the environment. Part of the identity."""
    tags: JsonObject = Field(default_factory=dict)
    """Inert labels (`metadata` in a manifest file). Never read by the host."""

    @cached_property
    def content_digest(self) -> Digest:
        """Identity of the episode: everything that changes what happens, and no label."""
        return Digest(
            digest(self.model_dump(mode="json", exclude={"episode_id": True, "tags": True}))
        )

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        copied = super().model_copy(update=update, deep=deep)
        # What was computed once belongs to the original.
        copied.__dict__.pop("content_digest", None)
        return copied


class Manifest(Record):
    """Episodes in the order in which they are reported."""

    episodes: tuple[EpisodeSpec, ...] = Field(min_length=1)
    split: Split | None = None

    @model_validator(mode="after")
    def _ids_are_unique(self) -> Self:
        counts = Counter(spec.episode_id for spec in self.episodes)
        doubled = [episode_id for episode_id, count in counts.items() if count > 1]
        if doubled:
            raise ValueError(f"episode_id must be unique; used more than once: {doubled}")
        if len({spec.content_digest for spec in self.episodes}) < len(self.episodes):
            raise ValueError("two episodes differ in their label alone: give one another repeat")
        return self

    @property
    def content_digest(self) -> Digest:
        """Identity of the set of episodes, independent of their labels but not of their order."""
        return Digest(digest([spec.content_digest for spec in self.episodes]))

    def select(self, episode_ids: Sequence[str]) -> Manifest:
        """The named episodes in the order asked for; the first of a repeated id counts.

        Raises:
            ManifestError: If an id is unknown (all of them are listed) or nothing is selected.
        """
        known = {str(spec.episode_id): spec for spec in self.episodes}
        wanted = list(dict.fromkeys(episode_ids))
        unknown = [episode_id for episode_id in wanted if episode_id not in known]
        if unknown:
            raise ManifestError(
                f"episodes: {unknown} are not in the manifest; it has {sorted(known)}"
            )
        if not wanted:
            raise ManifestError("episodes: the selection is empty; leave it out to run all")
        return Manifest(episodes=tuple(known[each] for each in wanted), split=self.split)


def canonical_env_id(env_id: str) -> str:
    """The one spelling of an env id: LIBERO's tasks are numbered without leading zeros."""
    padded = _PADDED.fullmatch(env_id)
    return env_id if padded is None else padded[1] + padded[2]


Place = tuple[str, int]
"""Environment and initial state."""


def place(spec: EpisodeSpec, states: Mapping[str, int]) -> Place:
    """What an episode of a session starts from, whatever its goal is called and whichever seed
    selects it. The scenario is no part of it: only adapters of catalogs are given one.

    Args:
        states: By env id, how many initial states there are where the seed modulo their number
            selects one. Every seed of any other environment is taken for a state of its own.
    """
    count = states.get(spec.env_id)
    return spec.env_id, spec.seed if count is None else spec.seed % count


def overlap(
    first: Manifest, second: Manifest, *, states: Mapping[str, int]
) -> tuple[tuple[EpisodeSpec, EpisodeSpec], ...]:
    """Pairs of episodes that start from the same place in both manifests; see `place`."""
    places = {place(spec, states): spec for spec in first.episodes}
    return tuple(
        (places[at], spec) for spec in second.episodes if (at := place(spec, states)) in places
    )


def other_seeds(
    like: Manifest,
    *,
    unlike: Sequence[Manifest],
    states: Mapping[str, int],
    at_least: int,
    at_most: int,
) -> Manifest:
    """A canary without a manifest of its own: the tasks of `like` at seeds that nobody uses.

    Each task once, in order, and again until there are enough; the smallest seeds come first.

    Args:
        unlike: Manifests whose seeds are taken, besides those of `like`.
        states: See `place`: a seed is taken if another one that selects its state is.

    Raises:
        ManifestError: An environment has no initial state left.
    """
    taken = {place(spec, states) for each in (like, *unlike) for spec in each.episodes}
    tasks: dict[tuple[str, str, str], EpisodeSpec] = {}
    for spec in like.episodes:
        tasks.setdefault((spec.env_id, spec.task, digest(spec.scenario)), spec)
    wanted = max(at_least, min(len(tasks), at_most))
    chosen: list[EpisodeSpec] = []
    for spec in itertools.islice(itertools.cycle(tasks.values()), wanted):
        count = states.get(spec.env_id)
        seeds = itertools.count() if count is None else range(count)
        seed = next((each for each in seeds if (spec.env_id, each) not in taken), None)
        if seed is None:
            raise ManifestError(
                f"canary: is not set, and each of the {count} initial states of {spec.env_id} is "
                "in use by another split; leave one out there, or name the canary: "
                "canary.path=FILE"
            )
        taken.add((spec.env_id, seed))
        name = EpisodeId(f"canary-{len(chosen)}-{spec.episode_id}")
        chosen.append(spec.model_copy(update={"episode_id": name, "seed": seed}))
    return Manifest(episodes=tuple(chosen), split=Split.CANARY)

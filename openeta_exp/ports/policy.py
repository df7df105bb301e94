"""The policy: an observation-to-action model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.record import Record, digest


class PolicyRecipe(Record):
    """How a worker process makes its own instance of a policy.

    A recipe crosses the process boundary; a policy, with its weights or its connection, does not.
    """

    factory: str
    """Import string of a callable that returns a `Policy`."""
    arguments: JsonObject
    """Its keyword arguments."""

    @property
    def content_digest(self) -> Digest:
        return Digest(digest(self))


class Policy(Protocol):
    """One policy in one worker process, used by one episode at a time.

    Blocking, because a simulator waits for its action anyway.
    """

    in_process: bool
    """Whether `act` sees the very observation it is given, so that its reads can be watched."""

    def start_episode(self, task: Mapping[str, object]) -> None:
        """Forget the episode before. Called after a good reset, before the first observation.

        Raises:
            PolicyError: The policy cannot start.
        """
        ...

    def act(self, observation: dict[str, object]) -> Mapping[str, object]:
        """Answer one observation with `actions`, `[dim]` float32, and whatever else it says.

        Raises:
            PolicyError: There is no answer to this very observation. The answer to another one
                is never returned in its place.
        """
        ...

    def end_episode(self, result: Mapping[str, object]) -> None:
        """Also called when an episode broke. Never raises for a server that is gone."""
        ...

    def describe(self) -> JsonObject:
        """What it says of itself: `identity` (class, weights, version), and if it knows them
        `requires` (dotted observation keys), `action_spec`, `observation_spec`.

        Raises:
            PolicyError: It could not be asked.
        """
        ...

    def close(self) -> None: ...

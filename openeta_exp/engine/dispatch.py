"""In which order workers take episodes: whole environments first, so that few are rebuilt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from openeta_exp.domain.manifest import EpisodeSpec


class Dispatch:
    """Pending episodes, handed out one at a time.

    Building an environment costs seconds and resetting it milliseconds, so a worker keeps to its
    environment while episodes of it are left, then takes the one the fewest others are at.
    Outcomes are reported in manifest order whatever the order here.
    """

    def __init__(self, specs: Iterable[EpisodeSpec]) -> None:
        self._pending: dict[str, list[EpisodeSpec]] = {}
        for spec in specs:
            self._pending.setdefault(spec.env_id, []).append(spec)
        self._workers: Counter[str] = Counter()

    def next(self, last_env_id: str | None) -> EpisodeSpec | None:
        """The next episode for a worker that was last at `last_env_id`; None when none is left."""
        if last_env_id is not None:
            self._workers[last_env_id] -= 1
        if not self._pending:
            return None
        env_id = (
            last_env_id
            if last_env_id in self._pending
            else min(self._pending, key=lambda each: self._workers[each])
        )
        assert env_id is not None
        specs = self._pending[env_id]
        spec = specs.pop(0)
        if not specs:
            del self._pending[env_id]
        self._workers[env_id] += 1
        return spec

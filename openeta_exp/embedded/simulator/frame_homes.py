"""Which processes can tell what a frame shows."""

from __future__ import annotations

from collections import OrderedDict

from openeta_exp.embedded.simulator.worker_process import WorkerProcess

_CAPACITY = 4096
_HOMES = 4


class FrameHomes:
    """Digest of a frame to the processes that rendered it, for the latest 4096 frames.

    Equal episodes render equal frames, so a digest may have several homes.
    """

    def __init__(self) -> None:
        self._homes: OrderedDict[str, tuple[WorkerProcess, ...]] = OrderedDict()

    def remember(self, digest: str, worker: WorkerProcess) -> None:
        others = (home for home in self._homes.pop(digest, ()) if home is not worker)
        self._homes[digest] = (worker, *others)[:_HOMES]
        while len(self._homes) > _CAPACITY:
            self._homes.popitem(last=False)

    def forget(self, worker: WorkerProcess) -> None:
        """Its next environment knows nothing of these frames."""
        for digest, homes in list(self._homes.items()):
            left = tuple(home for home in homes if home is not worker)
            if left:
                self._homes[digest] = left
            else:
                del self._homes[digest]

    def of(self, digest: str) -> tuple[WorkerProcess, ...]:
        """Living ones, the latest first."""
        return tuple(home for home in self._homes.get(digest, ()) if home.alive)

"""Where the truth of a frame comes from: a simulator server, with a memory of recent frames."""

from __future__ import annotations

from collections import OrderedDict
from types import TracebackType
from typing import TYPE_CHECKING

import anyio

from openeta_exp.embedded.simulator.frames import FrameSource, FrameTruth
from openeta_exp.errors import SimulatorError

if TYPE_CHECKING:
    import httpx2

REMEMBERED_FRAMES = 32


class HttpFrameSource:
    """Asks `GET {frames_url}/{sha256}` of a simulator server. Enter before use."""

    def __init__(self, frames_url: str, *, timeout_s: float = 60.0) -> None:
        self._url = frames_url.rstrip("/")
        self._timeout_s = timeout_s
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> HttpFrameSource:
        import httpx2

        # The simulator stands on this machine, so no proxy has a say.
        self._client = httpx2.AsyncClient(timeout=self._timeout_s, trust_env=False)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def frame_truth(self, digest: str) -> FrameTruth | None:
        """See `FrameSource`."""
        import httpx2

        if self._client is None:
            raise RuntimeError("enter the frame source before use")
        try:
            response = await self._client.get(f"{self._url}/{digest}")
        except httpx2.HTTPError as error:
            raise SimulatorError(f"no frame from {self._url}: {error!r}") from error
        if response.status_code == 404:
            return None
        if response.status_code != 200:
            raise SimulatorError(f"{self._url} answered {response.status_code}")
        try:
            return FrameTruth.from_npz(response.content)
        except ValueError as error:
            raise SimulatorError(f"{self._url}: {error}") from error


class RememberedFrames:
    """A frame source that asks another one once per frame: target, goal and grasps of one turn
    are usually found in the same image."""

    def __init__(self, source: FrameSource, *, capacity: int = REMEMBERED_FRAMES) -> None:
        self._source = source
        self._capacity = capacity
        self._known: OrderedDict[str, FrameTruth] = OrderedDict()
        self._asking: dict[str, anyio.Event] = {}

    async def frame_truth(self, digest: str) -> FrameTruth | None:
        """See `FrameSource`. What is not known is asked for again the next time."""
        while digest in self._asking:
            await self._asking[digest].wait()
        if digest in self._known:
            self._known.move_to_end(digest)
            return self._known[digest]
        self._asking[digest] = anyio.Event()
        try:
            truth = await self._source.frame_truth(digest)
        finally:
            self._asking.pop(digest).set()
        if truth is not None:
            self._known[digest] = truth
            while len(self._known) > self._capacity:
                self._known.popitem(last=False)
        return truth

"""Recorders as an adapter sees them; the host supplies the ones that keep something."""

from __future__ import annotations

from typing import Any


class EpisodeRecorder:
    """Takes what an adapter wants to keep of an episode."""

    is_active = False
    sid = ""
    eid = ""
    eval_id = ""
    db_path = ""

    def record_step(self, **fields: Any) -> None:
        """Keep fields of one step."""

    def record_video(self, frame: Any) -> None:
        """Keep one frame, `[H, W, 3]` uint8; None is no frame."""

    def close(self, **_: Any) -> None:
        """Called by the host."""


class NullEpisodeRecorder(EpisodeRecorder):
    """Keeps nothing."""

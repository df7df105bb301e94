"""Keeps what an adapter hands to its recorder: fields per step, and frames."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path

import numpy as np

from openeta_exp.catalog.host.values import Json, plain


class Recorder:
    """The recorder of one episode, with the members vla-eval's recorder has."""

    is_active = True
    eval_id = ""
    db_path = ""

    def __init__(self, *, session_id: str, episode_id: str, keep_video: bool) -> None:
        self.sid = session_id
        self.eid = episode_id
        self._rows: dict[int, dict[str, Json]] = {}
        self._next = 0
        self._keep_video = keep_video
        self._frames: list[bytes] = []

    def record_step(self, **fields: object) -> None:
        """Keep fields of one step; `step=` names it, otherwise steps count up from 0."""
        given = fields.pop("step", None)
        step = self._next if given is None else int(str(given))
        self._next = step + 1
        row = self._rows.setdefault(step, {})
        for name, value in fields.items():
            row[name] = plain(value)

    def record_video(self, frame: object) -> None:
        """Keep a frame, `[H, W, 3]` uint8, if videos are wanted; None is no frame."""
        if frame is None or not self._keep_video:
            return
        from PIL import Image

        encoded = io.BytesIO()
        Image.fromarray(np.asarray(frame, dtype=np.uint8)).save(encoded, "JPEG", quality=90)
        self._frames.append(encoded.getvalue())

    def close(self, **_: object) -> None:
        """Nothing is open: files are written when the episode has ended."""

    @property
    def rows(self) -> list[dict[str, Json]]:
        """One object per recorded step, with its number, in order."""
        return [{"step": step, **row} for step, row in sorted(self._rows.items())]

    def last_row(self) -> dict[str, Json]:
        return self._rows[max(self._rows)] if self._rows else {}

    def write_steps(self, folder: Path) -> dict[str, Json]:
        """Write the rows as JSON lines and say where, how many, and their digest."""
        content = "".join(
            json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n" for row in self.rows
        ).encode()
        path = folder / f"{self.eid}.steps.jsonl"
        _write(path, content)
        return {
            "file": path.name,
            "count": len(self._rows),
            "sha256": hashlib.sha256(content).hexdigest(),
        }

    def write_video(self, folder: Path, *, fps: int = 20) -> str | None:
        """Write the frames as an animated WebP; None if there are none."""
        if not self._frames:
            return None
        from PIL import Image

        frames = [Image.open(io.BytesIO(each)) for each in self._frames]
        encoded = io.BytesIO()
        frames[0].save(
            encoded,
            "WEBP",
            save_all=True,
            append_images=frames[1:],
            duration=1000 // fps,
            quality=70,
        )
        path = folder / f"{self.eid}.webp"
        _write(path, encoded.getvalue())
        return path.name


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.write_bytes(content)
    os.replace(partial, path)

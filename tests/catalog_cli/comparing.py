"""`command=compare` in this process, on the toy world, with what it leaves behind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.assembly import execute
from openeta_exp.composition import compose_settings
from openeta_exp.domain.event import EpisodeEnded, Event
from openeta_exp.domain.policy_comparison import Contrast, PolicyComparison
from tests.catalog.catalogs import write_catalog

WEAK = ("policy@weak=tests.catalog.toy_policies:Homing", "weak.params={gain: 0.4}")
STRONG = ("policy@strong=tests.catalog.toy_policies:Homing", "strong.params={gain: 5.0}")
GRID = {
    "params": {
        "x": {"range": [-0.6, 0.6], "steps": 6},
        "y": {"range": [0.1, 0.4], "steps": 4},
    }
}


@dataclass(frozen=True)
class Compared:
    """One run of the command."""

    code: int
    result: PolicyComparison
    folder: Path
    events: list[Event]

    @property
    def contrast(self) -> Contrast:
        (only,) = self.result.contrasts
        return only

    @property
    def episodes(self) -> Counter[str]:
        """How often episodes ended, by arm."""
        names = {each.arm_digest: each.name for each in self.result.policies}
        return Counter(
            names[event.outcome.arm_digest]
            for event in self.events
            if isinstance(event, EpisodeEnded) and event.outcome.arm_digest in names
        )


def toy_catalog(folder: Path, **changes: Any) -> Path:
    """24 scenarios that a strong policy solves in 10 steps."""
    return write_catalog(
        folder / "catalog", **{"task": {"max_steps": 10}, "scenarios": GRID, **changes}
    )


def compare(folder: Path, *overrides: str, catalog: Path | None = None) -> Compared:
    """Run the command on the folder's catalog; its results are below the folder."""
    settings = compose_settings(
        [
            "command=compare",
            f"catalog.path={catalog or folder / 'catalog'}",
            "catalog.workers=1",
            f"output_root={folder / 'outputs'}",
            "tracking=none",
            *overrides,
        ]
    )
    code = execute(settings)
    layout = ExperimentLayout.below(settings.output_root, settings.experiment_id)
    journal = SqliteJournal(layout.journal, read_only=True)
    events = [event for _, event in journal.events()]
    journal.close()
    return Compared(
        code=code,
        result=PolicyComparison.from_json(layout.comparison.result.read_bytes()),
        folder=layout.comparison.folder,
        events=events,
    )

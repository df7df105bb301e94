"""Where everything of one experiment lies.

<output_root>/experiments/<experiment_id>/
  journal.sqlite
  approvals/pending/<id>.json  approvals/answers/<id>.json
  interactions/pending/<session_id>.json  interactions/claimed/<session_id>.json
  comparison/
    comparison.json  report.html  checks.json  episodes.json
    steps/  videos/
  generations/000/
    generation.json
    baseline_skills/  baseline_grasp_strategies/
    <phase>/
      result.json
      sessions/<session_id>/
        trace.jsonl  skills/  grasp_strategies/  artifacts/
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openeta_exp.domain.identity import check_path_component


@dataclass(frozen=True, slots=True)
class TreeFolders:
    """The two folders that hold an artifact tree."""

    skills: Path
    grasp_strategies: Path

    @classmethod
    def inside(cls, folder: Path) -> TreeFolders:
        """`skills/` and `grasp_strategies/` of a session or of a baseline."""
        return cls(folder / "skills", folder / "grasp_strategies")


@dataclass(frozen=True, slots=True)
class PhaseLayout:
    """One batch of episodes within a generation."""

    folder: Path

    @property
    def result(self) -> Path:
        return self.folder / "result.json"

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"

    def session(self, session_id: str) -> Path:
        """Raises: ValueError: If the id cannot name a directory."""
        return self.sessions / check_path_component(session_id)


@dataclass(frozen=True, slots=True)
class ComparisonLayout:
    """A comparison of policies."""

    folder: Path

    @property
    def result(self) -> Path:
        return self.folder / "comparison.json"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def checks(self) -> Path:
        return self.folder / "checks.json"

    @property
    def episodes(self) -> Path:
        """The manifest, for running single episodes again."""
        return self.folder / "episodes.json"

    @property
    def steps(self) -> Path:
        return self.folder / "steps"

    @property
    def videos(self) -> Path:
        return self.folder / "videos"


@dataclass(frozen=True, slots=True)
class GenerationLayout:
    """One generation: its baseline and its phases."""

    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / "generation.json"

    @property
    def baseline(self) -> TreeFolders:
        return TreeFolders(
            self.folder / "baseline_skills", self.folder / "baseline_grasp_strategies"
        )

    def phase(self, name: str) -> PhaseLayout:
        """Raises: ValueError: If the name cannot name a directory."""
        return PhaseLayout(self.folder / check_path_component(name))


@dataclass(frozen=True, slots=True)
class ExperimentLayout:
    """One experiment below the output root."""

    folder: Path

    @classmethod
    def below(cls, output_root: Path, experiment_id: str) -> ExperimentLayout:
        """Raises: ValueError: If the id cannot name a directory."""
        return cls(output_root / "experiments" / check_path_component(experiment_id))

    @property
    def journal(self) -> Path:
        return self.folder / "journal.sqlite"

    @property
    def approvals(self) -> Path:
        """Calls that wait for a person."""
        return self.folder / "approvals"

    @property
    def interactions(self) -> Path:
        """Episodes that wait for a person."""
        return self.folder / "interactions"

    @property
    def comparison(self) -> ComparisonLayout:
        return ComparisonLayout(self.folder / "comparison")

    def generation(self, number: int) -> GenerationLayout:
        return GenerationLayout(self.folder / "generations" / f"{number:03d}")

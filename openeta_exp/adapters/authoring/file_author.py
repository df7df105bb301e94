"""An author that is a person: whoever drops a file into a folder."""

from __future__ import annotations

from pathlib import Path

from openeta_exp.domain.artifact import SUFFIX, Artifact, ArtifactKind
from openeta_exp.domain.candidate import Candidate, Proposal
from openeta_exp.domain.grasp_strategy import parse_strategy
from openeta_exp.domain.skill import parse_skill
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.errors import ArtifactError
from openeta_exp.ports.author import Workbench


class FileAuthor:
    """Proposes the first file of a folder, by name, that was not tried before."""

    name = "file"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def propose(self, evidence: TrainingEvidence, *, bench: Workbench) -> Proposal:
        tried = {earlier.content_digest for earlier in evidence.earlier}
        for path in sorted(self._folder.glob(f"*{SUFFIX[evidence.kind]}")):
            try:
                text = path.read_text(encoding="utf-8")
                artifact = Artifact(kind=evidence.kind, name=_name(evidence, text, path), text=text)
            except (OSError, UnicodeDecodeError) as error:
                return Proposal(candidate=None, reason=f"{path}: cannot be read: {error}")
            except ArtifactError as error:
                return Proposal(candidate=None, reason="; ".join(error.problems))
            if artifact.content_digest not in tried:
                return Proposal(candidate=self._candidate(artifact, evidence), reason="proposed")
        return Proposal(
            candidate=None, reason=f"{self._folder}: holds no file that was not tried before"
        )

    def _candidate(self, artifact: Artifact, evidence: TrainingEvidence) -> Candidate:
        supersedes = None
        if artifact.kind is ArtifactKind.GRASP_STRATEGY:
            supersedes = parse_strategy(artifact.text, source=artifact.name).supersedes
        return Candidate(
            artifact=artifact,
            supersedes=supersedes,
            parent_digest=evidence.tree.content_digest,
            origin="file",
        )


def _name(evidence: TrainingEvidence, text: str, path: Path) -> str:
    """Raises: ArtifactError: The file is no artifact of this kind."""
    if evidence.kind is ArtifactKind.GRASP_STRATEGY:
        return parse_strategy(text, source=str(path)).strategy_id
    return parse_skill(text, source=str(path)).name

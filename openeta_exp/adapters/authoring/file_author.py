"""An author that is a person: whoever drops a file into a folder."""

from __future__ import annotations

from pathlib import Path

from openeta_exp.domain.artifact import SUFFIX, Artifact, ArtifactKind
from openeta_exp.domain.candidate import Candidate, Proposal
from openeta_exp.domain.grasp_strategy import GraspStrategy, check_revision, parse_strategy
from openeta_exp.domain.skill import parse_skill
from openeta_exp.domain.training import TrainingEvidence
from openeta_exp.errors import ArtifactError
from openeta_exp.ports.author import Workbench

MAX_BYTES = 256 * 1024
"""A candidate goes into every fact about it, and before a reviewer."""


class FileAuthor:
    """Proposes the first file of a folder, by name, that can be used and was not tried before.

    What the baseline holds already was tried. A file that cannot be used is named with its
    mistakes and left out, so that it does not stand in the way of those after it.
    """

    name = "file"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def propose(self, evidence: TrainingEvidence, *, bench: Workbench) -> Proposal:
        tried = {earlier.content_digest for earlier in evidence.earlier}
        tried |= {each.content_digest for each in evidence.tree.of(evidence.kind)}
        problems: list[str] = []
        for path in self._files(evidence.kind, problems):
            try:
                candidate = _candidate(path, evidence)
                if candidate.content_digest in tried:
                    continue
                _check_place(candidate, evidence, source=str(path))
            except ArtifactError as error:
                problems += error.problems
            else:
                return Proposal(candidate=candidate, reason="proposed", left_out=tuple(problems))
        return Proposal(
            candidate=None,
            reason=f"{self._folder}: holds no usable file that was not tried before",
            left_out=tuple(problems),
        )

    def _files(self, kind: ArtifactKind, problems: list[str]) -> list[Path]:
        try:
            # What editors and file managers leave behind begins with a dot.
            return sorted(
                path
                for path in self._folder.iterdir()
                if path.suffix == SUFFIX[kind] and not path.name.startswith(".")
            )
        except OSError as error:
            problems.append(f"{self._folder}: cannot be read: {error.strerror or error}")
            return []


def _candidate(path: Path, evidence: TrainingEvidence) -> Candidate:
    """Raises: ArtifactError: The file is no artifact of this kind."""
    text, source = _text(path), str(path)
    supersedes = None
    match evidence.kind:
        case ArtifactKind.GRASP_STRATEGY:
            strategy = parse_strategy(text, source=source)
            name, supersedes = strategy.strategy_id, strategy.supersedes
        case ArtifactKind.SKILL:
            name = parse_skill(text, source=source).name
    return Candidate(
        artifact=Artifact(kind=evidence.kind, name=name, text=text),
        supersedes=supersedes,
        parent_digest=evidence.tree.content_digest,
        origin="file",
    )


def _text(path: Path) -> str:
    try:
        # A pipe would be waited for without end, and hold up everything else.
        if not path.is_file():
            raise ArtifactError(f"{path}: is no file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ArtifactError(f"{path}: is larger than {MAX_BYTES // 1024} KB")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from error


def _check_place(candidate: Candidate, evidence: TrainingEvidence, *, source: str) -> None:
    """A strategy takes the place of its family's present one, or begins a family.

    Otherwise the tree that is compared would hold two of a family, or lose another one's, and
    the registry could not say what the strategy was compared with.

    Raises:
        ArtifactError: It is no revision of what the baseline holds.
    """
    if candidate.artifact.kind is not ArtifactKind.GRASP_STRATEGY:
        return
    new = parse_strategy(candidate.artifact.text, source=source)
    in_use = {each.strategy_id: each for each in evidence.tree.grasp_strategies()}
    if new.strategy_id in in_use:
        raise ArtifactError(
            f"{source}: strategy_id = {new.strategy_id}: is the baseline's own, with other "
            "content; give the revision another id"
        )
    related = (each for each in in_use.values() if _may_precede(each, new))
    old = next(related, None)
    if old is not None:
        try:
            check_revision(new, old)
        except ArtifactError as error:
            raise ArtifactError([f"{source}: {each}" for each in error.problems]) from error
    elif new.supersedes is not None:
        raise ArtifactError(
            f"{source}: supersedes = {new.supersedes}: is not in the baseline, which has "
            f"{', '.join(in_use) or 'no strategy'}"
        )


def _may_precede(old: GraspStrategy, new: GraspStrategy) -> bool:
    return old.strategy_id == new.supersedes or old.strategy_family_id == new.strategy_family_id

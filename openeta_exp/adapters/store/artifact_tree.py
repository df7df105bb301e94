"""Artifact trees as folders: `skills/<name>.md` and `grasp_strategies/<strategy_id>.json`."""

from __future__ import annotations

from pathlib import Path

from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.adapters.store.layout import TreeFolders
from openeta_exp.domain.artifact import SUFFIX, Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.grasp_strategy import parse_strategy
from openeta_exp.domain.skill import parse_skill
from openeta_exp.errors import ArtifactError, StoreError


def baseline_folders(name: str, *, shipped: Path) -> TreeFolders:
    """The folders of a baseline, by the name of a shipped one or by path.

    Raises:
        ArtifactError: There is none.
    """
    for folder in (shipped / name, Path(name).expanduser()):
        if (folder / "skills").is_dir() or (folder / "grasp_strategies").is_dir():
            return TreeFolders.inside(folder)
    names = sorted(each.name for each in shipped.iterdir() if (each / "skills").is_dir())
    raise ArtifactError(
        f"baseline {name!r}: name a shipped one of {names}, or a folder with skills/ and "
        "grasp_strategies/ in it"
    )


def read_tree(folders: TreeFolders) -> ArtifactTree:
    """Read and check every file. A missing folder holds nothing.

    Raises:
        ArtifactError: Listing every broken file at once.
    """
    artifacts: list[Artifact] = []
    problems: list[str] = []
    for kind in ArtifactKind:
        for path in _files(_folder(folders, kind)):
            try:
                artifacts.append(_read(kind, path))
            except ArtifactError as error:
                problems += error.problems
    if problems:
        raise ArtifactError(problems)
    return ArtifactTree(artifacts=tuple(artifacts))


def write_tree(tree: ArtifactTree, folders: TreeFolders, *, durable: bool) -> None:
    """Write every artifact; both folders exist afterwards, even if one stays empty.

    Args:
        durable: Survive a power cut, at one fsync per file. A session's copy need not.

    Raises:
        StoreError: A file could not be written.
        ArtifactError: A name cannot name a file.
    """
    for kind in ArtifactKind:
        folder = _folder(folders, kind)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for artifact in tree.of(kind):
                path = folder / _file_name(artifact)
                if durable:
                    write_atomically(path, artifact.text.encode("utf-8"))
                else:
                    path.write_text(artifact.text, encoding="utf-8", newline="")
        except OSError as error:
            raise StoreError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _folder(folders: TreeFolders, kind: ArtifactKind) -> Path:
    match kind:
        case ArtifactKind.SKILL:
            return folders.skills
        case ArtifactKind.GRASP_STRATEGY:
            return folders.grasp_strategies


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    # What editors and file managers leave behind begins with a dot.
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _read(kind: ArtifactKind, path: Path) -> Artifact:
    if path.suffix != SUFFIX[kind]:
        raise ArtifactError(f"{path}: only `<name>{SUFFIX[kind]}` files belong in this folder")
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be read: {error.strerror or error}") from error
    match kind:
        case ArtifactKind.SKILL:
            name = parse_skill(text, source=str(path)).name
        case ArtifactKind.GRASP_STRATEGY:
            name = parse_strategy(text, source=str(path)).strategy_id
    if name != path.stem:
        raise ArtifactError(f"{path}: the name inside is {name!r}; it must be the file's name")
    return Artifact(kind=kind, name=name, text=text)


def _file_name(artifact: Artifact) -> str:
    name = f"{artifact.name}{SUFFIX[artifact.kind]}"
    if Path(name).name != name or name.startswith("."):
        raise ArtifactError(f"{artifact.kind} {artifact.name!r}: the name cannot name a file")
    return name

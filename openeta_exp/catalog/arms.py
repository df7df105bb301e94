"""Who a policy is: a digest of its recipe, code, weights, files it is given or its own word."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from openeta_exp.catalog.findings import Finding, suspect
from openeta_exp.catalog.messages import PolicyDescription
from openeta_exp.catalog.source import find_source
from openeta_exp.domain.event import Arm
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.record import digest
from openeta_exp.errors import CatalogError
from openeta_exp.ports.policy import PolicyRecipe

_PLACES = frozenset({"url", "connect_timeout_s", "act_timeout_s", "images"})
"""Arguments that say where a policy is reached and how, not which one it is."""
_SELF_REPORTS = ("weights_digest", "version", "checkpoint", "revision")
_READ_BYTES = 1 << 20
_MOST_FILES, _MOST_BYTES = 10_000, 32 << 30
"""Of a folder that a parameter names; it is read whenever a comparison starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyArm:
    """One side of a comparison.

    Attributes:
        finding: Set if the identity is weaker than it should be.
    """

    arm: Arm
    finding: Finding | None


def policy_arm(
    label: str,
    recipe: PolicyRecipe,
    described: PolicyDescription,
    *,
    weights: Sequence[Path] = (),
    revision: str | None = None,
    search_path: Sequence[str] = (),
    scripted: bool = False,
) -> PolicyArm:
    """The arm of a policy, independent of its label and, where possible, of its address.

    Without weights, a revision or a self-report, the address has to stand for a server: then
    overwriting the weights behind it goes unnoticed, and the finding says so. A policy in the
    worker's process is its source, its parameters and the content of the files that these name,
    by a path relative to where the command runs; what it reads besides goes unnoticed likewise.

    Args:
        weights: Files or directories of the checkpoint; their content is identity.
        revision: What the user calls this state of the weights.
        scripted: True if no trained model is behind it; stamped in every result.

    Raises:
        CatalogError: A weights file does not exist.
    """
    arguments = {name: value for name, value in recipe.arguments.items() if name not in _PLACES}
    target = recipe.arguments.get("target")
    source = find_source(target.partition(":")[0], search_path) if isinstance(target, str) else None
    reported = any(described.identity.get(name) for name in _SELF_REPORTS)
    named = _named_files(recipe.arguments.get("params"))
    known = bool(weights or revision or reported or named.digests)
    nameless = source is None and not known
    settings: JsonObject = {
        "factory": recipe.factory,
        "arguments": {**arguments, **({"url": recipe.arguments.get("url")} if nameless else {})},
        "self_report": described.identity,
        "weights": dict(weights_digests(weights)),
        "revision": revision,
        "source": source.content_digest if source else None,
    }
    if named.digests:
        settings["files"] = dict(named.digests)
    arm = Arm(
        label=label, tree_digest=Digest(digest(settings)), settings=settings, scripted=scripted
    )
    return PolicyArm(
        arm=arm,
        finding=_weakness(
            label,
            too_large=() if weights or revision else named.too_large,
            by_address=nameless and target is None,
            # A policy without a trained model is its code, as long as that was found.
            by_code=target is not None and not known and not (scripted and source),
        ),
    )


def _weakness(
    label: str, *, too_large: Sequence[str], by_address: bool, by_code: bool
) -> Finding | None:
    remedy = f"name policies.{label}.weights or policies.{label}.revision"
    code = "policy_identity_weak"
    if by_address:
        return suspect(
            code,
            f"policy {label} is known by its address only: other weights behind it would look "
            f"like the same policy; {remedy}",
        )
    if too_large:
        return suspect(
            code,
            f"policies.{label}.params.{too_large[0]} names a folder of more than {_MOST_FILES} "
            f"files or {_MOST_BYTES >> 30} GiB, which is not read: what changes in it would look "
            f"like the same policy; {remedy}",
        )
    if by_code:
        return suspect(
            code,
            f"policy {label} is known by its code and parameters only: other weights that it "
            f"loads would look like the same policy; {remedy}, or say "
            f"policies.{label}.scripted=true if it loads none",
        )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedFiles:
    """Files that parameters of a policy name.

    Attributes:
        digests: By the parameter's dotted name, followed by the file's name in a folder.
        too_large: Parameters that name folders that were not read.
    """

    digests: dict[str, str]
    too_large: tuple[str, ...]


def _named_files(params: JsonValue) -> _NamedFiles:
    digests: dict[str, str] = {}
    too_large: list[str] = []
    for name, text in _texts(params):
        if os.path.isfile(text):
            digests[name] = _file_digest(Path(text))
        elif os.sep in text and os.path.isdir(text):
            # A single word is taken for a word, whatever folders there are where it is said.
            folder = Path(text)
            if _is_too_large(folder):
                too_large.append(name)
            else:
                digests |= {f"{name}/{at}": each for at, each in weights_digests([folder]).items()}
    return _NamedFiles(digests=digests, too_large=tuple(too_large))


def _texts(value: JsonValue, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a nested value, by its dotted name."""
    match value:
        case str():
            yield prefix, value
        case dict() | list():
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in items:
                yield from _texts(each, f"{prefix}.{key}" if prefix else str(key))
        case _:
            pass


def _is_too_large(folder: Path) -> bool:
    left = _MOST_BYTES
    for count, file in enumerate(folder.rglob("*")):
        left -= file.stat().st_size if file.is_file() else 0
        if count >= _MOST_FILES or left < 0:
            return True
    return False


def weights_digests(paths: Sequence[Path]) -> dict[str, str]:
    """SHA-256 of every file, by its name relative to the path it was found under.

    Raises:
        CatalogError: A path does not exist.
    """
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        raise CatalogError([f"weights: {name} does not exist" for name in missing])
    files = {
        (file.relative_to(path).as_posix() if path.is_dir() else file.name): file
        for path in paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file()
    }
    return {name: _file_digest(file) for name, file in sorted(files.items())}


def _file_digest(file: Path) -> str:
    hasher = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(_READ_BYTES):
            hasher.update(block)
    return hasher.hexdigest()

"""Who a policy is: a digest of its recipe, its code, its weights or its own word for itself."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
    overwriting the weights behind it goes unnoticed, and the finding says so.

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
    weak = source is None and not (weights or revision or reported)
    settings: JsonObject = {
        "factory": recipe.factory,
        "arguments": {**arguments, **({"url": recipe.arguments.get("url")} if weak else {})},
        "self_report": described.identity,
        "weights": dict(weights_digests(weights)),
        "revision": revision,
        "source": source.content_digest if source else None,
    }
    arm = Arm(
        label=label, tree_digest=Digest(digest(settings)), settings=settings, scripted=scripted
    )
    return PolicyArm(arm=arm, finding=_weak_identity(label) if weak else None)


def _weak_identity(label: str) -> Finding:
    return suspect(
        "policy_identity_weak",
        f"policy {label} is known by its address only: other weights behind it would look like "
        "the same policy; name its `weights` or a `revision`",
    )


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

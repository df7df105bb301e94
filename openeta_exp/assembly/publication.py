"""The shared registry: who publishes to it, who starts from it, and `command=rollback`."""

from __future__ import annotations

import time
from pathlib import Path

import openeta_exp
from openeta_exp.adapters.registry.folder_registry import FolderRegistry
from openeta_exp.adapters.store.artifact_tree import read_tree
from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.gate import Tier
from openeta_exp.errors import SettingsError
from openeta_exp.reporting.console import Console
from openeta_exp.settings.command import RollbackSettings
from openeta_exp.settings.experiment import ExperimentSettings


def open_registry(settings: ExperimentSettings) -> FolderRegistry:
    """The registry the settings name; nothing is written yet.

    Raises:
        SettingsError: It would lie within the installed package.
    """
    root = (settings.registry_root or settings.output_root / "registry").absolute()
    if root.resolve().is_relative_to(Path(openeta_exp.__file__).resolve().parent):
        raise SettingsError(
            f"registry_root = {root}: lies within the package; name a folder outside of it"
        )
    return FolderRegistry(root, write_atomically=write_atomically)


def publishing_registry(settings: ExperimentSettings) -> FolderRegistry | None:
    """Where promoted strategies go; None if they stay with the experiment.

    Raises:
        StoreError: The registry cannot be written: better now than after the last gate.
    """
    if not settings.publish_grasp_strategies or settings.lineage.tier is not Tier.PUBLISH:
        return None
    registry = open_registry(settings)
    registry.check()
    return registry


def registry_tree(settings: ExperimentSettings, *, skills_of: ArtifactTree) -> ArtifactTree:
    """What is validated, with the skills to use it.

    An experiment that has begun goes on from what it began with: what it publishes itself must
    not make it another experiment.

    Raises:
        SettingsError: Nothing is validated.
        StoreError, ArtifactError: The registry or the experiment's baseline is damaged.
    """
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    first = layout.generation(0)
    if first.record.is_file():
        return read_tree(first.baseline)
    registry = open_registry(settings)
    validated = registry.validated()
    if not validated.artifacts:
        raise SettingsError(
            f"baseline.tree = registry: {registry.root} has no validated grasp strategy; "
            "`command=iterate` publishes what its last gate promotes"
        )
    return ArtifactTree(artifacts=skills_of.of(ArtifactKind.SKILL)).with_changes(
        validated.artifacts
    )


def rollback(settings: ExperimentSettings, asked: RollbackSettings) -> int:
    """Withdraw one strategy and say what is validated now."""
    receipt = open_registry(settings).roll_back(
        ArtifactKind.GRASP_STRATEGY, asked.strategy, reason=asked.reason, at_s=time.time()
    )
    Console().text(receipt.sentence)
    return 0

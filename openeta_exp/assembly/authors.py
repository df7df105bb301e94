"""Who writes candidates, and what they may use for it."""

from __future__ import annotations

from importlib.util import find_spec
from typing import assert_never

from openeta_exp.adapters.authoring.file_author import FileAuthor
from openeta_exp.adapters.authoring.model_author import ModelStrategyAuthor
from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.engine.author import NOTHING, Allowance
from openeta_exp.errors import SettingsError
from openeta_exp.ports.author import Author
from openeta_exp.ports.provider import Provider
from openeta_exp.settings.lineage import (
    AuthorSettings,
    FileAuthorSettings,
    GepaAuthorSettings,
    ModelAuthorSettings,
    ScriptedAuthorSettings,
)


def check_author(settings: AuthorSettings) -> None:
    """Raises: SettingsError: The author lacks its folder, or a package it needs."""
    if isinstance(settings, FileAuthorSettings) and not settings.folder.is_dir():
        raise SettingsError(
            f"author.folder = {settings.folder}: is no directory; make it, or name the one that "
            "candidates are put into"
        )
    if isinstance(settings, GepaAuthorSettings) and find_spec("gepa") is None:
        raise SettingsError(
            "author = gepa: the package gepa is not installed; run "
            "`pip install 'openeta_exp[gepa]'`, or choose another author"
        )


def authors(settings: AuthorSettings, provider: Provider) -> dict[ArtifactKind, Author]:
    """By what they write; a kind that is missing is only collected from sessions."""
    match settings:
        case ScriptedAuthorSettings():
            return {
                ArtifactKind.GRASP_STRATEGY: ModelStrategyAuthor(provider, name="scripted-author")
            }
        case ModelAuthorSettings():
            return {ArtifactKind.GRASP_STRATEGY: ModelStrategyAuthor(provider, name="model")}
        case FileAuthorSettings(folder=folder):
            author = FileAuthor(folder)
            return {ArtifactKind.GRASP_STRATEGY: author, ArtifactKind.SKILL: author}
        case GepaAuthorSettings():
            # Here, because not everybody has the package.
            from openeta_exp.adapters.authoring.gepa_author import GepaStrategyAuthor

            return {
                ArtifactKind.GRASP_STRATEGY: GepaStrategyAuthor(
                    provider,
                    episodes_per_candidate=settings.episodes_per_candidate,
                    minibatch=settings.minibatch,
                    seed=settings.seed,
                )
            }
        case _:
            assert_never(settings)


def allowance(settings: AuthorSettings) -> Allowance:
    """What one proposal may take besides its own answer."""
    if isinstance(settings, GepaAuthorSettings):
        return Allowance(episodes=settings.max_episodes, usd=settings.max_usd)
    return NOTHING

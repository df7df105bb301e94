"""Skills and grasp strategies as versions in MLflow's prompt registry, found by content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mlflow.entities.model_registry import PromptVersion
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from openeta_exp.domain.artifact import Artifact, ArtifactKind
from openeta_exp.domain.publication import family_of
from openeta_exp.errors import ArtifactError

DIGEST_TAG = "content_digest"
_LONGEST_TEXT = 99_000
"""MLflow refuses texts from 100 000 characters on."""
_LONGEST_TAG = 7_000
"""MLflow cuts at 8000 without a word."""
_EXPERIMENTS_TAG = "_mlflow_experiment_ids"
"""Makes an entry appear on the experiment's own page."""


def entry_name(experiment_id: str, artifact: Artifact) -> str:
    """One entry for all revisions of an artifact within an experiment.

    The store is shared by experiments, whose champions are not each other's.
    """
    try:
        family = family_of(artifact)
    except ArtifactError:
        family = artifact.name  # Kept to be looked at; it never becomes a baseline.
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in family)
    return f"{experiment_id}.{artifact.kind.value}.{plain}"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an entry."""

    entry: str
    number: int


class Library:
    """The prompt registry of one store."""

    def __init__(self, client: MlflowClient, *, mlflow_experiment_id: str) -> None:
        self._client = client
        self._experiment = mlflow_experiment_id
        self._known: dict[str, dict[str, Version]] = {}
        self._aliases: dict[tuple[str, str], int] = {}

    def keep(self, entry: str, artifact: Artifact, *, message: str, diff: str) -> Version:
        """The version with this content, which is made if there is none."""
        versions = self._versions(entry, artifact)
        digest = artifact.content_digest
        found = versions.get(digest)
        if found is not None:
            return found
        made = self._client.create_prompt_version(
            entry,
            _shown_text(artifact),
            description=message,
            tags={DIGEST_TAG: digest, "name": artifact.name}
            | ({"diff": diff[:_LONGEST_TAG]} if diff else {}),
        )
        versions[digest] = Version(entry, int(made.version))
        return versions[digest]

    def note(self, version: Version, tags: Mapping[str, str]) -> None:
        """Write what is known of a version now."""
        for key, value in tags.items():
            self._client.set_prompt_version_tag(
                version.entry, version.number, key, value[:_LONGEST_TAG]
            )

    def point(self, alias: str, version: Version) -> None:
        """Move an alias, unless it points there already."""
        if self._aliases.get((version.entry, alias)) == version.number:
            return
        try:
            now = self._client.get_prompt_version_by_alias(version.entry, alias).version
        except MlflowException:
            now = None
        if now is None or int(now) != version.number:
            self._client.set_prompt_alias(version.entry, alias, version.number)
        self._aliases[version.entry, alias] = version.number

    def _versions(self, entry: str, artifact: Artifact) -> dict[str, Version]:
        """By content."""
        known = self._known.get(entry)
        if known is not None:
            return known
        found = {}
        there = self._client.get_prompt(entry)
        mine = f",{self._experiment},"
        if there is None:
            self._client.create_prompt(
                entry,
                description=f"{artifact.kind.value.replace('_', ' ')} of an openeta_exp lineage",
                tags={"kind": artifact.kind.value, _EXPERIMENTS_TAG: mine},
            )
        else:
            pages = there.tags.get(_EXPERIMENTS_TAG, ",")
            if mine not in pages:
                pages = f"{pages}{self._experiment},"
                self._client.set_prompt_tag(entry, _EXPERIMENTS_TAG, pages)
            for each in self._every_version(entry):
                digest = each.tags.get(DIGEST_TAG)
                if digest is not None:
                    found[digest] = Version(entry, int(each.version))
        self._known[entry] = found
        return found

    def _every_version(self, entry: str) -> Iterator[PromptVersion]:
        token = None
        while True:
            page = self._client.search_prompt_versions(entry, page_token=token)
            yield from page
            token = page.token
            if not token:
                return


def _shown_text(artifact: Artifact) -> str:
    """The text as MLflow's page, which takes it for Markdown, shows it best."""
    text = artifact.text
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}\n[cut here: {len(text)} characters]"
    return text if artifact.kind is ArtifactKind.SKILL else f"```json\n{text.rstrip()}\n```\n"

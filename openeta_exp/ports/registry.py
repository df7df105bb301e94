"""Where promoted artifacts are shared between experiments."""

from __future__ import annotations

from typing import Protocol

from openeta_exp.domain.artifact import ArtifactKind, ArtifactTree
from openeta_exp.domain.publication import AliasMove, Publication, Receipt


class Registry(Protocol):
    """Content-addressed entries, aliases, and the history of both.

    Several processes may use one at the same time: every operation sees all earlier ones whole,
    and moves an alias only from where it has seen it. Operations wait for each other for moments
    and may be called from any thread.
    """

    def publish(self, publication: Publication, *, at_s: float) -> Receipt:
        """Keep an artifact and move the aliases as `domain.publication.admit` rules.

        The same publication again changes nothing. A name that belongs to other content is no
        exception but a receipt: the run that asks has nothing to take back.

        Raises:
            ArtifactError: The artifact does not parse.
            StoreError: It could not be kept; nothing has changed.
        """
        ...

    def roll_back(self, kind: ArtifactKind, name: str, *, reason: str, at_s: float) -> Receipt:
        """Withdraw an artifact for good; what was validated before it is validated again.

        Raises:
            ArtifactError: There is no entry of that name.
            SettingsError: Nothing was ever published here: it is another place that is meant.
            StoreError: It could not be recorded; nothing has changed.
        """
        ...

    def validated(self) -> ArtifactTree:
        """What is validated now, one artifact of each family.

        Raises:
            StoreError: It cannot be read.
            ArtifactError: A file of an entry was changed.
        """
        ...

    def history(self) -> tuple[AliasMove, ...]:
        """Every move, oldest first. Raises: StoreError."""
        ...

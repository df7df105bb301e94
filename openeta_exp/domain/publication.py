"""Artifacts that outlive their experiment: which of a family may be used, and how that came about.

Aliases belong to a family, such as all revisions of one grasp strategy. They are never stored as
such: they are what the history of their moves adds up to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from openeta_exp.domain.artifact import Artifact, ArtifactKind
from openeta_exp.domain.candidate import Promotion
from openeta_exp.domain.grasp_strategy import parse_strategy
from openeta_exp.domain.identity import Digest
from openeta_exp.domain.record import Record
from openeta_exp.domain.verdict import GateVerdict
from openeta_exp.errors import ArtifactError, SettingsError

_SHORT = 12


class Alias(StrEnum):
    """What an entry of a registry may be used for."""

    CANDIDATE = "candidate"
    """Published, and not compared with what is validated. Used only where it is named."""
    VALIDATED = "validated"
    """What sessions start from that ask the registry."""
    ROLLED_BACK = "rolled_back"
    """Withdrawn for good: never made validated again by a publication."""


class Publication(Record):
    """A promoted artifact that asks to be shared, with the evidence it was promoted on."""

    artifact: Artifact
    replaces: Digest | None
    """Content of the artifact that it was compared with; None if it had no predecessor."""
    replaces_meaning: Digest | None = None
    """`meaning_of` that artifact; None too where an earlier version has published."""
    experiment_id: str
    promotion: Promotion
    verdict: GateVerdict
    scripted: bool
    """True if a scripted model stood in for a real one when the evidence was gathered."""
    openeta_exp_version: str
    git_commit: str | None

    @property
    def family(self) -> str:
        return family_of(self.artifact)


class RegistryEntry(Record):
    """One published artifact, as it was first published. Immutable."""

    publication: Publication
    published_at_s: float

    @property
    def artifact(self) -> Artifact:
        return self.publication.artifact

    @property
    def content_digest(self) -> Digest:
        return self.artifact.content_digest


class AliasMove(Record):
    """One line of a registry's history."""

    kind: ArtifactKind
    family: str
    alias: Alias
    before: Digest | None
    after: Digest | None
    """What the alias points to from now on; None takes it away."""
    reason: str
    experiment_id: str | None = None
    """The experiment whose publication this was; None for a person's decision."""
    comparison_id: str | None = None
    at_s: float = Field(ge=0)


class Standing(StrEnum):
    """What became of a publication."""

    VALIDATED = "validated"
    CANDIDATE = "candidate"
    """Kept, but what is validated is not what it was compared with."""
    SUPERSEDED = "superseded"
    """The same content was validated before, and another has taken its place since."""
    ROLLED_BACK = "rolled_back"
    """The same content was rolled back before; nothing has changed."""
    CONFLICT = "conflict"
    """The name belongs to other content; nothing has changed."""


class Receipt(Record):
    """The answer to a publication. The same publication again gets the same standing."""

    kind: ArtifactKind
    name: str
    content_digest: Digest
    standing: Standing
    sentence: str
    """For a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """One family as its history leaves it.

    Attributes:
        validated_before: What was validated earlier, oldest first.
        rolled_back: Everything that ever was, oldest first.
    """

    kind: ArtifactKind
    family: str
    candidate: Digest | None = None
    validated: Digest | None = None
    validated_before: tuple[Digest, ...] = ()
    rolled_back: tuple[Digest, ...] = ()

    @property
    def fallback(self) -> Digest | None:
        """What becomes validated if the present one is taken away."""
        earlier = (each for each in reversed(self.validated_before) if each != self.validated)
        return next((each for each in earlier if each not in self.rolled_back), None)

    def move(self, alias: Alias, after: Digest | None, *, reason: str, at_s: float) -> AliasMove:
        """A move from where the alias points to now."""
        now = {
            Alias.CANDIDATE: self.candidate,
            Alias.VALIDATED: self.validated,
            Alias.ROLLED_BACK: self.rolled_back[-1] if self.rolled_back else None,
        }
        return AliasMove(
            kind=self.kind,
            family=self.family,
            alias=alias,
            before=now[alias],
            after=after,
            reason=reason,
            at_s=at_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a registry answers, and the moves that make it so."""

    receipt: Receipt
    moves: tuple[AliasMove, ...] = ()


def family_of(artifact: Artifact) -> str:
    """What revisions of an artifact have in common: a skill's name, a strategy's family.

    Raises:
        ArtifactError: It is a grasp strategy that does not parse.
    """
    match artifact.kind:
        case ArtifactKind.SKILL:
            return artifact.name
        case ArtifactKind.GRASP_STRATEGY:
            return parse_strategy(artifact.text, source=artifact.name).strategy_family_id


def meaning_of(artifact: Artifact) -> Digest:
    """What an artifact says, whichever experiment wrote it down: without a strategy's provenance.

    Raises:
        ArtifactError: It is a grasp strategy that does not parse.
    """
    match artifact.kind:
        case ArtifactKind.SKILL:
            return artifact.content_digest
        case ArtifactKind.GRASP_STRATEGY:
            strategy = parse_strategy(artifact.text, source=artifact.name)
            return strategy.model_copy(update={"provenance": {}}).semantic_digest


def shelf(history: Iterable[AliasMove], *, kind: ArtifactKind, family: str) -> Shelf:
    """Add up the moves of one family, oldest first."""
    pointing: dict[Alias, Digest | None] = {}
    validated: list[Digest] = []
    rolled_back: list[Digest] = []
    for move in history:
        if (move.kind, move.family) != (kind, family):
            continue
        pointing[move.alias] = move.after
        if move.after is not None and move.alias is Alias.VALIDATED:
            validated.append(move.after)
        if move.after is not None and move.alias is Alias.ROLLED_BACK:
            rolled_back.append(move.after)
    return Shelf(
        kind=kind,
        family=family,
        candidate=pointing.get(Alias.CANDIDATE),
        validated=pointing.get(Alias.VALIDATED),
        validated_before=tuple(validated),
        rolled_back=tuple(rolled_back),
    )


def admit(
    publication: Publication, *, now: Shelf, entries: Mapping[str, RegistryEntry], at_s: float
) -> Ruling:
    """Decide about a publication.

    The validated alias moves only if it still points to what the artifact was compared with, or
    to nothing: a win over something else is no win over what is in use. An artifact that another
    experiment has published before in the same meaning is that entry, and no other content.

    Args:
        entries: Every entry of the artifact's kind by name.
    """
    artifact = publication.artifact
    owner = entries.get(artifact.name)
    mine = (artifact if owner is None else owner.artifact).content_digest
    already = ""
    if owner is not None and owner.publication.experiment_id != publication.experiment_id:
        already = f"already published by experiment {owner.publication.experiment_id}; "

    def ruling(standing: Standing, sentence: str, *moves: AliasMove) -> Ruling:
        receipt = Receipt(
            kind=artifact.kind,
            name=artifact.name,
            content_digest=mine,
            standing=standing,
            sentence=f"{artifact.name}: {sentence}",
        )
        return Ruling(receipt=receipt, moves=tuple(_signed(each, publication) for each in moves))

    if owner is not None and meaning_of(owner.artifact) != meaning_of(artifact):
        return ruling(
            Standing.CONFLICT,
            f"not published: the name belongs to other content ({mine[:_SHORT]} of experiment "
            f"{owner.publication.experiment_id}, this is {artifact.content_digest[:_SHORT]}); "
            "give the revision another id",
        )
    if mine in now.rolled_back:
        return ruling(
            Standing.ROLLED_BACK,
            f"{already}not activated: this very content was rolled back before",
        )
    if mine == now.validated:
        return ruling(Standing.VALIDATED, f"{already}is the validated {now.family}")
    if mine in now.validated_before:
        return ruling(
            Standing.SUPERSEDED,
            f"{already}was validated before and another has taken its place",
        )
    reason = ", ".join(publication.promotion.reasons)
    if _beats_the_validated(publication, now, entries):
        moves = [now.move(Alias.VALIDATED, mine, reason=reason, at_s=at_s)]
        if now.candidate == mine:
            moves.append(now.move(Alias.CANDIDATE, None, reason="validated", at_s=at_s))
        return ruling(Standing.VALIDATED, f"{already}is now the validated {now.family}", *moves)
    assert now.validated is not None, "None is dealt with above"
    explained = (
        f"{already or 'published as '}a candidate: the validated {now.family} is "
        f"{now.validated[:_SHORT]}, which it was not compared with"
    )
    if mine == now.candidate:
        return ruling(Standing.CANDIDATE, explained)
    move = now.move(Alias.CANDIDATE, mine, reason=reason, at_s=at_s)
    return ruling(Standing.CANDIDATE, explained, move)


def _beats_the_validated(
    publication: Publication, now: Shelf, entries: Mapping[str, RegistryEntry]
) -> bool:
    if now.validated in (None, publication.replaces):
        return True
    return any(
        entry.content_digest == now.validated
        and meaning_of(entry.artifact) == publication.replaces_meaning
        for entry in entries.values()
    )


def withdraw(artifact: Artifact, *, now: Shelf, reason: str, at_s: float) -> Ruling:
    """Roll an artifact back: for good, and to what was validated before it.

    Once more is no error and changes nothing.
    """
    mine = artifact.content_digest

    def ruling(sentence: str, *moves: AliasMove) -> Ruling:
        receipt = Receipt(
            kind=artifact.kind,
            name=artifact.name,
            content_digest=mine,
            standing=Standing.ROLLED_BACK,
            sentence=f"{artifact.name}: {sentence}",
        )
        return Ruling(receipt=receipt, moves=moves)

    if mine in now.rolled_back:
        return ruling("was rolled back already")
    moves = [now.move(Alias.ROLLED_BACK, mine, reason=reason, at_s=at_s)]
    if mine == now.candidate:
        moves.append(now.move(Alias.CANDIDATE, None, reason=reason, at_s=at_s))
    if mine != now.validated:
        return ruling("is rolled back; it was not the validated one", *moves)
    after = now.fallback
    moves.append(now.move(Alias.VALIDATED, after, reason=reason, at_s=at_s))
    if after is None:
        return ruling(f"is rolled back; no {now.family} is validated now", *moves)
    return ruling(f"is rolled back; {after[:_SHORT]} is the validated {now.family} again", *moves)


def nothing_published(place: str) -> SettingsError:
    """What to raise where something is to be withdrawn from what is no registry."""
    return SettingsError(
        f"{place}: there is no registry that anything was published to; check registry_root, or "
        "output_root if the registry lies below it"
    )


def unknown_name(name: str, names: Iterable[str]) -> ArtifactError:
    """What to raise for a name that no entry has."""
    known = ", ".join(sorted(names)) or "nothing yet"
    return ArtifactError(f"{name}: is not in the registry, which has {known}")


def _signed(move: AliasMove, publication: Publication) -> AliasMove:
    return move.model_copy(
        update={
            "experiment_id": publication.experiment_id,
            "comparison_id": publication.promotion.comparison_id,
        }
    )

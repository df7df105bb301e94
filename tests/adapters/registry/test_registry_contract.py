"""What every registry promises, whichever keeps it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from openeta_exp.adapters.registry.folder_registry import FolderRegistry
from openeta_exp.adapters.registry.memory_registry import MemoryRegistry
from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.domain.artifact import Artifact, ArtifactKind
from openeta_exp.domain.grasp_strategy import parse_strategy, render_strategy
from openeta_exp.domain.publication import Alias, Standing
from openeta_exp.errors import ArtifactError, SettingsError
from openeta_exp.ports.registry import Registry
from tests.generations import strategy
from tests.publications import FIRST, SECOND, THIRD, publication

KIND = ArtifactKind.GRASP_STRATEGY
Open = Callable[[], Registry]


@pytest.fixture(params=["memory", "folder"])
def open_registry(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same registry each time, as different processes would."""
    kept = MemoryRegistry()

    def again() -> Registry:
        if request.param == "memory":
            return kept
        return FolderRegistry(tmp_path / "registry", write_atomically=write_atomically)

    return again


def validated(registry: Registry) -> list[str]:
    return [each.name for each in registry.validated().artifacts]


def test_what_won_against_nothing_known_is_validated(open_registry: Open) -> None:
    receipt = open_registry().publish(publication(FIRST), at_s=1.0)

    assert receipt.standing is Standing.VALIDATED
    assert open_registry().validated().artifacts == (FIRST,)
    (move,) = open_registry().history()
    assert (move.alias, move.before, move.after) == (Alias.VALIDATED, None, FIRST.content_digest)
    assert (move.reason, move.experiment_id) == ("superior", "exp")


def test_the_same_publication_again_changes_nothing(open_registry: Open) -> None:
    registry = open_registry()
    first = registry.publish(publication(FIRST), at_s=1.0)
    again = open_registry().publish(publication(FIRST), at_s=2.0)

    assert again.standing is first.standing
    assert len(registry.history()) == 1


def test_a_win_over_what_is_validated_takes_its_place(open_registry: Open) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    receipt = registry.publish(publication(SECOND, over=FIRST), at_s=2.0)

    assert receipt.standing is Standing.VALIDATED
    assert validated(registry) == [SECOND.name]
    # A lineage that was killed before it could note the first receipt asks once more.
    late = registry.publish(publication(FIRST), at_s=3.0)
    assert late.standing is Standing.SUPERSEDED
    assert validated(registry) == [SECOND.name]


def test_a_win_over_something_else_stays_a_candidate_until_it_beats_what_is_validated(
    open_registry: Open,
) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    receipt = registry.publish(publication(SECOND, over=THIRD, experiment_id="other"), at_s=2.0)

    assert receipt.standing is Standing.CANDIDATE
    assert "which it was not compared with" in receipt.sentence
    assert validated(registry) == [FIRST.name]

    receipt = registry.publish(publication(SECOND, over=FIRST, experiment_id="third"), at_s=3.0)
    assert receipt.standing is Standing.VALIDATED
    assert [(move.alias, move.after) for move in registry.history()[-2:]] == [
        (Alias.VALIDATED, SECOND.content_digest),
        (Alias.CANDIDATE, None),
    ]


def test_a_name_that_belongs_to_other_content_is_a_conflict_in_one_sentence(
    open_registry: Open,
) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    twin = Artifact(kind=KIND, name=FIRST.name, text=FIRST.text.replace("Close", "Shut"))
    receipt = registry.publish(publication(twin), at_s=2.0)

    assert receipt.standing is Standing.CONFLICT
    assert receipt.sentence.startswith(f"{FIRST.name}: not published: the name belongs to other")
    assert registry.validated().artifacts == (FIRST,)
    assert len(registry.history()) == 1


def of_another_experiment(artifact: Artifact) -> Artifact:
    """The same parameters, as another experiment has written them down."""
    written = parse_strategy(artifact.text, source=artifact.name).model_copy(
        update={"provenance": {"experiment_id": "other", "rationale": "solved 19 of 20 episodes"}}
    )
    return artifact.model_copy(update={"text": render_strategy(written)})


def test_what_another_experiment_has_published_already_is_said_to_be_published(
    open_registry: Open,
) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    twin = of_another_experiment(FIRST)
    receipt = open_registry().publish(publication(twin, experiment_id="other"), at_s=2.0)

    assert receipt.standing is Standing.VALIDATED
    assert receipt.content_digest == FIRST.content_digest != twin.content_digest
    assert receipt.sentence == (
        f"{FIRST.name}: already published by experiment exp; is the validated grip"
    )
    assert registry.validated().artifacts == (FIRST,)
    assert len(registry.history()) == 1


def test_a_win_over_another_experiments_copy_of_what_is_validated_takes_its_place(
    open_registry: Open,
) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    receipt = registry.publish(
        publication(SECOND, over=of_another_experiment(FIRST), experiment_id="other"), at_s=2.0
    )

    assert receipt.standing is Standing.VALIDATED
    assert validated(registry) == [SECOND.name]


def test_a_candidate_becomes_validated_by_the_win_of_another_experiments_copy(
    open_registry: Open,
) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    registry.publish(publication(SECOND, over=THIRD), at_s=2.0)
    receipt = registry.publish(
        publication(of_another_experiment(SECOND), over=FIRST, experiment_id="other"), at_s=3.0
    )

    assert receipt.standing is Standing.VALIDATED
    assert registry.validated().artifacts == (SECOND,)
    assert open_registry().roll_back(KIND, SECOND.name, reason="slow", at_s=4.0).content_digest == (
        SECOND.content_digest
    )


def test_a_copy_of_what_was_rolled_back_is_not_activated(open_registry: Open) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    registry.roll_back(KIND, FIRST.name, reason="drops cups", at_s=2.0)
    twin = of_another_experiment(FIRST)

    assert registry.publish(publication(twin, experiment_id="other"), at_s=3.0).standing is (
        Standing.ROLLED_BACK
    )
    assert validated(registry) == []


def test_a_rollback_brings_back_what_was_validated_before(open_registry: Open) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    registry.publish(publication(SECOND, over=FIRST), at_s=2.0)
    receipt = registry.roll_back(KIND, SECOND.name, reason="drops cups", at_s=3.0)

    assert receipt.sentence.endswith("is the validated grip again")
    assert validated(registry) == [FIRST.name]
    assert {move.reason for move in registry.history()[2:]} == {"drops cups"}


def test_a_rolled_back_strategy_never_becomes_active_by_itself(open_registry: Open) -> None:
    registry = open_registry()
    for artifact, over in ((FIRST, None), (SECOND, FIRST), (THIRD, SECOND)):
        registry.publish(publication(artifact, over=over), at_s=1.0)
    registry.roll_back(KIND, SECOND.name, reason="drops cups", at_s=2.0)
    # Neither as what comes before the one that is taken away ...
    registry.roll_back(KIND, THIRD.name, reason="slow", at_s=3.0)
    assert validated(registry) == [FIRST.name]
    # ... nor by being promoted again.
    receipt = registry.publish(publication(SECOND, over=FIRST), at_s=4.0)
    assert receipt.standing is Standing.ROLLED_BACK
    assert validated(registry) == [FIRST.name]


def test_rolling_back_the_only_one_leaves_nothing_validated_and_may_be_repeated(
    open_registry: Open,
) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    registry.roll_back(KIND, FIRST.name, reason="drops cups", at_s=2.0)
    moves = len(registry.history())
    again = registry.roll_back(KIND, FIRST.name, reason="drops cups", at_s=3.0)

    assert validated(registry) == []
    assert "already" in again.sentence
    assert len(registry.history()) == moves


def test_rolling_back_a_candidate_leaves_the_validated_one_alone(open_registry: Open) -> None:
    registry = open_registry()
    registry.publish(publication(FIRST), at_s=1.0)
    registry.publish(publication(SECOND, over=THIRD), at_s=2.0)
    registry.roll_back(KIND, SECOND.name, reason="never used", at_s=3.0)

    assert validated(registry) == [FIRST.name]
    assert registry.history()[-1].alias is Alias.CANDIDATE
    assert registry.history()[-1].after is None


def test_an_unknown_name_is_refused_with_the_known_ones(open_registry: Open) -> None:
    open_registry().publish(publication(FIRST), at_s=1.0)
    with pytest.raises(ArtifactError, match=f"has {FIRST.name}"):
        open_registry().roll_back(KIND, "nothing", reason="why", at_s=2.0)


def test_where_nothing_was_published_there_is_nothing_to_roll_back(open_registry: Open) -> None:
    with pytest.raises(SettingsError, match=r"no registry .* published to; check registry_root"):
        open_registry().roll_back(KIND, FIRST.name, reason="why", at_s=2.0)


def test_of_many_that_publish_at_once_exactly_one_moves_the_alias(open_registry: Open) -> None:
    rivals = [strategy(steps, revision=steps) for steps in range(5, 13)]

    def publish(artifact: Artifact) -> Standing:
        return open_registry().publish(publication(artifact, over=FIRST), at_s=1.0).standing

    with ThreadPoolExecutor(len(rivals)) as pool:
        standings = list(pool.map(publish, rivals))

    assert standings.count(Standing.VALIDATED) == 1
    assert standings.count(Standing.CANDIDATE) == len(rivals) - 1
    history = open_registry().history()
    assert len(history) == len(rivals)
    winner = rivals[standings.index(Standing.VALIDATED)]
    assert open_registry().validated().artifacts == (winner,)

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from openeta_exp.adapters.registry.folder_registry import FolderRegistry
from openeta_exp.adapters.store.atomic import write_atomically
from openeta_exp.domain.publication import Standing
from openeta_exp.errors import ArtifactError, StoreError
from tests.publications import FIRST, SECOND, publication


@pytest.fixture
def registry(tmp_path: Path) -> FolderRegistry:
    return FolderRegistry(tmp_path, write_atomically=write_atomically, patience_s=0.1)


def test_an_entry_is_the_file_itself_next_to_the_evidence_it_was_promoted_on(
    registry: FolderRegistry,
) -> None:
    registry.publish(publication(FIRST), at_s=1.0)

    folder = registry.root / "entries" / FIRST.content_digest
    assert (folder / f"{FIRST.name}.json").read_text("utf-8") == FIRST.text
    entry = json.loads((folder / "entry.json").read_bytes())
    evidence = entry["publication"]
    assert evidence["verdict"]["decision"] == "promote"
    assert evidence["promotion"]["comparison_id"] == "exp-g000-0-grasp_strategy-held-out"
    assert evidence["scripted"] is True


def test_aliases_can_be_read_by_a_person(registry: FolderRegistry) -> None:
    registry.publish(publication(FIRST), at_s=1.0)
    registry.publish(publication(SECOND, over=FIRST), at_s=2.0)

    assert json.loads((registry.root / "aliases.json").read_bytes()) == {
        "grasp_strategy/grip": {
            "validated": SECOND.content_digest,
            "candidate": None,
            "rolled_back": [],
        }
    }


def test_what_a_killed_process_left_half_written_is_passed_over(registry: FolderRegistry) -> None:
    registry.publish(publication(FIRST), at_s=1.0)
    history = registry.root / "history.jsonl"
    whole = history.read_bytes()
    history.write_bytes(whole + b'{"kind":"grasp_str')
    assert len(registry.history()) == 1

    receipt = registry.publish(publication(SECOND, over=FIRST), at_s=2.0)

    assert receipt.standing is Standing.VALIDATED
    assert len(registry.history()) == 2
    assert history.read_bytes().startswith(whole)


def test_an_entry_without_a_move_is_found_again_by_the_same_publication(
    registry: FolderRegistry,
) -> None:
    registry.publish(publication(FIRST), at_s=1.0)
    (registry.root / "history.jsonl").unlink()
    assert registry.validated().artifacts == ()

    assert registry.publish(publication(FIRST), at_s=2.0).standing is Standing.VALIDATED
    assert registry.validated().artifacts == (FIRST,)


def test_an_entry_that_was_changed_on_disk_is_not_used(registry: FolderRegistry) -> None:
    registry.publish(publication(FIRST), at_s=1.0)
    path = registry.root / "entries" / FIRST.content_digest / f"{FIRST.name}.json"
    path.write_text(FIRST.text.replace("Close", "Shut"), encoding="utf-8")

    with pytest.raises(ArtifactError, match="was changed after it had been published"):
        registry.validated()


def test_a_damaged_history_is_an_error_and_not_an_empty_one(registry: FolderRegistry) -> None:
    registry.publish(publication(FIRST), at_s=1.0)
    (registry.root / "history.jsonl").write_bytes(b"not a move\n")

    with pytest.raises(StoreError, match="is damaged"):
        registry.validated()


def test_a_registry_that_is_held_too_long_is_an_error_with_a_way_on(
    registry: FolderRegistry,
) -> None:
    registry.check()
    with (registry.root / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="the same command tries again"):
            registry.publish(publication(FIRST), at_s=1.0)

    assert registry.publish(publication(FIRST), at_s=2.0).standing is Standing.VALIDATED


def test_a_registry_that_cannot_be_written_is_found_out_before_it_is_needed(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    registry = FolderRegistry(tmp_path / "file", write_atomically=write_atomically)

    with pytest.raises(StoreError, match="cannot be locked"):
        registry.check()

from __future__ import annotations

import copy

from tests.batches import spec


def test_a_copy_with_other_content_has_another_digest() -> None:
    original = spec(0)
    assert original.content_digest == spec(0).content_digest

    assert original.model_copy(update={"seed": 7}).content_digest == (
        spec(0).model_copy(update={"seed": 7}).content_digest
    )
    assert original.model_copy(update={"seed": 7}).content_digest != original.content_digest
    assert copy.copy(original).content_digest == original.content_digest


def test_labels_are_no_part_of_the_identity() -> None:
    renamed = spec(0).model_copy(update={"episode_id": "other", "tags": {"a": 1}})

    assert renamed.content_digest == spec(0).content_digest
    assert renamed != spec(0)


def test_asking_for_the_digest_changes_neither_equality_nor_what_is_written() -> None:
    asked, untouched = spec(0), spec(0)
    assert asked.content_digest

    assert asked == untouched
    assert asked.to_json() == untouched.to_json()

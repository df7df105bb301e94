from __future__ import annotations

from openeta_exp.domain.artifact import Artifact, ArtifactKind
from openeta_exp.domain.tree_diff import tree_diff
from tests.generations import strategy, tree_of

OLD, NEW = strategy(6), strategy(16, revision=2)
SKILL = Artifact(kind=ArtifactKind.SKILL, name="pick", text="# Pick\n")


def test_a_revision_is_a_change_of_what_it_takes_the_place_of() -> None:
    diff = tree_diff(tree_of(OLD, SKILL), tree_of(NEW, SKILL))

    assert diff.startswith(f"--- grasp_strategy/{OLD.name}\n+++ grasp_strategy/{NEW.name}\n")
    assert '-    "close_steps": 6,' in diff
    assert '+    "close_steps": 16,' in diff
    assert "Pick" not in diff


def test_what_is_new_or_gone_is_whole() -> None:
    assert tree_diff(tree_of(), tree_of(SKILL)) == (
        "--- nothing\n+++ skill/pick\n@@ -0,0 +1 @@\n+# Pick\n"
    )
    assert tree_diff(tree_of(SKILL), tree_of()).endswith("-# Pick\n")


def test_equal_trees_have_no_difference() -> None:
    assert tree_diff(tree_of(OLD, SKILL), tree_of(SKILL, OLD)) == ""

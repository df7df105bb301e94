from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.artifact_tree import baseline_folders, read_tree, write_tree
from openeta_exp.adapters.store.layout import TreeFolders
from openeta_exp.domain.artifact import Artifact, ArtifactKind
from openeta_exp.errors import ArtifactError

SHIPPED = Path(__file__).parents[3] / "openeta_exp" / "embedded" / "baselines"


@pytest.mark.parametrize("name", ["standard", "naive"])
def test_a_shipped_baseline_is_read_by_name_and_survives_a_copy(name: str, tmp_path: Path) -> None:
    tree = read_tree(baseline_folders(name, shipped=SHIPPED))
    copy = TreeFolders.inside(tmp_path)

    write_tree(tree, copy, durable=True)

    assert tree.of(ArtifactKind.SKILL)
    assert tree.of(ArtifactKind.GRASP_STRATEGY)
    assert read_tree(copy) == tree
    assert read_tree(copy).content_digest == tree.content_digest


def test_a_baseline_may_be_a_folder_of_ones_own(tmp_path: Path) -> None:
    standard = read_tree(baseline_folders("standard", shipped=SHIPPED))
    write_tree(standard, TreeFolders.inside(tmp_path), durable=False)

    assert read_tree(baseline_folders(str(tmp_path), shipped=SHIPPED)) == standard


def test_an_unknown_baseline_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ArtifactError, match=r"'standart'.*\['naive', 'standard'\]"):
        baseline_folders("standart", shipped=SHIPPED)


def test_every_broken_file_is_reported_at_once(tmp_path: Path) -> None:
    folders = TreeFolders.inside(tmp_path)
    write_tree(read_tree(baseline_folders("standard", shipped=SHIPPED)), folders, durable=False)
    (folders.skills / "no_front_matter.md").write_text("just text", encoding="utf-8")
    (folders.skills / "latin.md").write_bytes(b"---\nname: caf\xe9\n---\nx")
    (folders.skills / "notes.txt").write_text("notes", encoding="utf-8")
    (folders.skills / "renamed.md").write_text("---\nname: other\n---\nbody", encoding="utf-8")
    (folders.skills / ".swap").write_text("left by an editor", encoding="utf-8")
    (folders.grasp_strategies / "broken.json").write_text("{", encoding="utf-8")

    with pytest.raises(ArtifactError) as caught:
        read_tree(folders)

    named = [problem.split(":")[0].rsplit("/", 1)[-1] for problem in caught.value.problems]
    assert named == ["latin.md", "no_front_matter.md", "notes.txt", "renamed.md", "broken.json"]


def test_line_endings_and_accents_do_not_change_identity_on_the_way(tmp_path: Path) -> None:
    text = "---\r\nname: cafe_note\r\n---\r\nbody é\r\n"
    tree = read_tree(TreeFolders.inside(tmp_path)).with_changes(
        [Artifact(kind=ArtifactKind.SKILL, name="cafe_note", text=text)]
    )
    write_tree(tree, TreeFolders.inside(tmp_path), durable=False)

    assert read_tree(TreeFolders.inside(tmp_path)).content_digest == tree.content_digest


@pytest.mark.parametrize("name", ["../escape", ".hidden", "a/b"])
def test_an_artifact_cannot_be_written_outside_its_folder(name: str, tmp_path: Path) -> None:
    tree = read_tree(TreeFolders.inside(tmp_path)).with_changes(
        [Artifact(kind=ArtifactKind.SKILL, name=name, text="x")]
    )
    with pytest.raises(ArtifactError, match="cannot name a file"):
        write_tree(tree, TreeFolders.inside(tmp_path / "inner"), durable=False)

"""A person's folder: what is proposed, what is left out, and that nothing in it can hold us up."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from pydantic import JsonValue

from openeta_exp.adapters.authoring.file_author import MAX_BYTES, FileAuthor
from openeta_exp.adapters.store.memory_journal import MemoryJournal
from openeta_exp.domain.artifact import Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.candidate import Proposal
from openeta_exp.domain.grasp_strategy import parse_strategy, render_strategy
from openeta_exp.domain.training import EarlierCandidate, TrainingEvidence
from openeta_exp.engine.author import NOTHING, AuthorBench
from tests.authoring import workshop
from tests.generations import plan, strategy, tree_of

pytestmark = pytest.mark.anyio

SKILL = Artifact(
    kind=ArtifactKind.SKILL, name="pick", text="---\nname: pick\n---\nLook before you grasp.\n"
)
TREE = tree_of(strategy(6), SKILL)


def revision(close_steps: int = 9, **fields: JsonValue) -> str:
    written = parse_strategy(strategy(close_steps, revision=2).text, source="revision")
    update = {"supersedes": strategy(6).name, **fields}
    return render_strategy(written.model_copy(update=update))


async def propose(
    folder: Path,
    kind: ArtifactKind = ArtifactKind.GRASP_STRATEGY,
    *,
    tree: ArtifactTree = TREE,
    earlier: Sequence[str] = (),
) -> Proposal:
    evidence = TrainingEvidence(
        experiment_id="exp",
        generation=1,
        kind=kind,
        tree=tree,
        episodes=(),
        earlier=tuple(
            EarlierCandidate(
                generation=0,
                kind=kind,
                name="earlier",
                content_digest=Artifact(kind=kind, name="earlier", text=text).content_digest,
                text=text,
                stop="held_out_rejected",
                reason="no better",
            )
            for text in earlier
        ),
    )
    bench = AuthorBench(
        workshop(MemoryJournal(), of=plan()), generation=1, kind=kind, allowance=NOTHING
    )
    return await FileAuthor(folder).propose(evidence, bench=bench)


async def test_a_revision_takes_the_place_of_what_it_says_it_supersedes(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(revision(9), encoding="utf-8")

    proposal = await propose(tmp_path)

    assert proposal.candidate is not None
    after = proposal.candidate.applied_to(TREE)
    assert [each.strategy_id for each in after.grasp_strategies()] == ["grip.r2.9"]
    assert proposal.left_out == ()


async def test_a_broken_file_is_named_and_does_not_stand_in_the_way_of_the_next(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.json").write_text("{not json", encoding="utf-8")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "c.json").mkdir()
    (tmp_path / "d.json").symlink_to(tmp_path / "nothing")
    (tmp_path / "e.json").write_text(revision(9), encoding="utf-8")

    proposal = await propose(tmp_path)

    assert proposal.candidate is not None
    assert proposal.candidate.artifact.name == "grip.r2.9"
    named = [each.partition(": ")[0] for each in proposal.left_out]
    assert named == [str(tmp_path / f"{name}.json") for name in "abcd"]


@pytest.mark.parametrize(
    "front_matter",
    [
        "name: [",
        "- pick",
        "name: ../pick",
        "name: 7",
        "1: pick",
        "name: " + "[" * 50_000,
        "name: 2020-13-45",
        "name: !!timestamp pick",
        "name: !!bool pick",
        "name: !!int ''",
        "name: !!python/object:os.system pick",
        "? [a]\n: b",
        "name: pick\nfoo: 1",
    ],
)
async def test_front_matter_that_makes_no_skill_is_one_sentence_about_the_file(
    tmp_path: Path, front_matter: str
) -> None:
    (tmp_path / "a.md").write_text(f"---\n{front_matter}\n---\nbody\n", encoding="utf-8")

    proposal = await propose(tmp_path, ArtifactKind.SKILL)

    assert proposal.candidate is None
    assert proposal.left_out
    assert all(each.startswith(f"{tmp_path / 'a.md'}: ") for each in proposal.left_out)
    assert all("\n" not in each for each in proposal.left_out)


async def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")

    with anyio.fail_after(5):
        proposal = await propose(tmp_path)

    assert proposal.left_out == (f"{tmp_path / 'a.json'}: is no file",)


@pytest.mark.parametrize("kind", list(ArtifactKind))
async def test_a_huge_file_is_left_out(tmp_path: Path, kind: ArtifactKind) -> None:
    for name in ("a.json", "a.md"):
        (tmp_path / name).write_bytes(b" " * (MAX_BYTES + 1))

    proposal = await propose(tmp_path, kind)

    assert proposal.candidate is None
    assert "is larger than 256 KB" in proposal.left_out[0]


@pytest.mark.parametrize("kind", list(ArtifactKind))
async def test_what_the_baseline_holds_already_is_not_proposed(
    tmp_path: Path, kind: ArtifactKind
) -> None:
    (tmp_path / "a.json").write_text(strategy(6).text, encoding="utf-8")
    (tmp_path / "a.md").write_text(SKILL.text, encoding="utf-8")

    proposal = await propose(tmp_path, kind)

    assert proposal.candidate is None
    assert proposal.reason.endswith("holds no usable file that was not tried before")


async def test_what_was_turned_down_is_not_proposed_again_under_another_file_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.json").write_text(revision(9), encoding="utf-8")
    (tmp_path / "b.json").write_text(revision(9), encoding="utf-8")
    (tmp_path / "c.json").write_text(revision(12), encoding="utf-8")

    proposal = await propose(tmp_path, earlier=[revision(9)])

    assert proposal.candidate is not None
    assert proposal.candidate.artifact.name == "grip.r2.12"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"supersedes": "nothing", "strategy_family_id": "other"}, "is not in the baseline, which"),
        ({"supersedes": None}, "supersedes must be 'grip.r1.6'"),
        ({"strategy_family_id": "other"}, "strategy_family_id must stay 'grip'"),
        ({"revision": 7}, "revision must be 2"),
        ({"strategy_id": "grip.r1.6"}, "give the revision another id"),
    ],
)
async def test_a_strategy_that_is_no_revision_of_the_baselines_is_left_out_with_the_reason(
    tmp_path: Path, fields: dict[str, JsonValue], problem: str
) -> None:
    (tmp_path / "a.json").write_text(revision(9, **fields), encoding="utf-8")

    proposal = await propose(tmp_path)

    assert proposal.candidate is None
    assert len(proposal.left_out) == 1
    assert proposal.left_out[0].startswith(f"{tmp_path / 'a.json'}: ")
    assert problem in proposal.left_out[0]


async def test_a_strategy_of_a_family_of_its_own_is_added(tmp_path: Path) -> None:
    fields: dict[str, JsonValue] = {"supersedes": None, "strategy_family_id": "hook"}
    (tmp_path / "a.json").write_text(revision(9, **fields), encoding="utf-8")

    proposal = await propose(tmp_path)

    assert proposal.candidate is not None
    assert len(proposal.candidate.applied_to(TREE).grasp_strategies()) == 2


async def test_a_folder_that_has_gone_is_said_to_have(tmp_path: Path) -> None:
    proposal = await propose(tmp_path / "nothing")

    assert proposal.left_out == (
        f"{tmp_path / 'nothing'}: cannot be read: No such file or directory",
    )

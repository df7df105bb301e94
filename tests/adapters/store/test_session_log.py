from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.layout import ExperimentLayout, PhaseLayout
from openeta_exp.adapters.store.session_log import FolderSessionLogs, Frames
from openeta_exp.domain.artifact import Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.decision import CallTools
from openeta_exp.domain.identity import SessionId
from openeta_exp.domain.observation import CameraFrame, Intrinsics, Observation, RobotState
from openeta_exp.domain.tool import ToolCall, ToolEffect, ToolResult
from openeta_exp.domain.trace import TurnTrace, traced_result, traced_view
from openeta_exp.errors import StoreError

SKILL = "---\nname: reach\n---\nReach for it.\n"
TREE = ArtifactTree(artifacts=(Artifact(kind=ArtifactKind.SKILL, name="reach", text=SKILL),))


def view(rgb: bytes = b"png bytes") -> Observation:
    identity = tuple(tuple(float(row == column) for column in range(4)) for row in range(4))
    return Observation(
        task="pick it up",
        cameras=(
            CameraFrame(
                frame_id="agentview",
                width=4,
                height=4,
                rgb_png=rgb,
                depth_png=b"depth bytes",
                intrinsics=Intrinsics(fx=1.0, fy=1.0, cx=2.0, cy=2.0),
                world_from_camera=identity,  # type: ignore[arg-type]
            ),
        ),
        robot=RobotState(eef_xyz_m=(0.1, 0.2, 0.3), eef_quat_xyzw=None, gripper_openness=1.0),
        facts={},
    )


def turn(index: int, *, outputs: str = "moved") -> TurnTrace:
    call = ToolCall(name="move_to", arguments={"xyz": [0.1, 0.2, 0.3]})
    result = ToolResult(
        call=call,
        effect=ToolEffect.WORLD_MUTATING,
        success=True,
        outputs={"said": outputs, "steps": [{"image": outputs}]},
        observation=view(),
        reached_target=True,
    )
    return TurnTrace(
        turn=index,
        at_s=1_790_000_000.0 + index,
        seen=traced_view(view()),
        decision=CallTools(calls=(call,)),
        results=(traced_result(result),),
    )


@pytest.fixture
def phase(tmp_path: Path) -> PhaseLayout:
    return ExperimentLayout.below(tmp_path, "exp").generation(0).phase("train")


def test_a_session_keeps_one_line_per_turn(phase: PhaseLayout) -> None:
    log = FolderSessionLogs(phase, frames="none").open(SessionId("s-1"), TREE)
    turns = [turn(index) for index in range(3)]
    for each in turns:
        log.turn(each, views=[view()])

    # Before the log is closed: a killed process leaves what it had done.
    lines = (phase.session("s-1") / "trace.jsonl").read_text(encoding="utf-8").splitlines()
    log.close()
    log.close()

    assert [TurnTrace.from_json(line) for line in lines] == turns
    assert not (phase.session("s-1") / "artifacts").exists()
    with pytest.raises(ValueError, match="closed"):
        log.turn(turn(3))


def test_images_are_kept_once_each_and_only_when_asked_for(phase: PhaseLayout) -> None:
    log = FolderSessionLogs(phase, frames="all").open(SessionId("s-1"), TREE)
    log.turn(turn(0), views=[view(b"first"), view(b"first")])
    log.turn(turn(1), views=[view(b"second")])
    log.close()

    kept = sorted((phase.session("s-1") / "artifacts").iterdir())
    names = {view(rgb).cameras[0].rgb_sha256 for rgb in (b"first", b"second")}
    assert {each.name for each in kept} == {
        f"{name}.{kind}.png" for name in names for kind in ("rgb", "depth")
    }


def test_a_trace_holds_no_pixels_whatever_a_tool_returns(phase: PhaseLayout) -> None:
    log = FolderSessionLogs(phase, frames="none").open(SessionId("s-1"), TREE)
    log.turn(turn(0, outputs="A" * 1_000_000))
    log.close()

    text = (phase.session("s-1") / "trace.jsonl").read_text(encoding="utf-8")
    assert len(text) < 5_000
    assert "1000000 characters, sha256" in text


def test_a_session_works_on_its_own_copy_of_the_artifacts(phase: PhaseLayout) -> None:
    logs = FolderSessionLogs(phase, frames="none")
    first, second = logs.open(SessionId("s-1"), TREE), logs.open(SessionId("s-2"), TREE)
    changed = phase.session("s-1") / "skills" / "reach.md"
    changed.write_text(SKILL + "Slowly.\n", encoding="utf-8")

    assert [each.name for each in first.tree().changed_from(TREE)] == ["reach"]
    assert second.tree() == TREE
    first.close()
    second.close()


def test_a_session_never_writes_over_another(phase: PhaseLayout) -> None:
    logs = FolderSessionLogs(phase, frames="none")
    logs.open(SessionId("s-1"), TREE).close()

    with pytest.raises(StoreError, match="s-1: cannot be written: File exists"):
        logs.open(SessionId("s-1"), TREE)


@pytest.mark.parametrize("frames", ["none", "all"])
def test_a_session_that_cannot_be_written_is_a_store_error(
    phase: PhaseLayout, frames: Frames
) -> None:
    log = FolderSessionLogs(phase, frames=frames).open(SessionId("s-1"), TREE)
    log._trace = open("/dev/full", "wb")  # noqa: SIM115 - the device that is always full
    with pytest.raises(StoreError, match="No space left on device"):
        log.turn(turn(0), views=[view()])
    with pytest.raises(StoreError, match="No space left on device"):
        log.close()

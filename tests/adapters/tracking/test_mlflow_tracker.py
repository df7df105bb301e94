from __future__ import annotations

import logging
import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from openeta_exp.adapters.tracking.messages import Farewell, MlflowTarget
from openeta_exp.adapters.tracking.mlflow_tracker import MlflowTracker
from tests.adapters.tracking.mlflow_page import Page
from tests.batches import lost, manifest, spec, story, won

FACTS = tuple(enumerate(story(manifest(2), [won(spec(0)), lost(spec(1))]), start=1))


def projector_of(tracker: MlflowTracker) -> int:
    """Id of the process behind a tracker, once there is one."""
    while tracker._process is None:
        time.sleep(0)
    return tracker._process.pid


def wait_until_gone(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(60_000), "the projector is still there"
    os.close(descriptor)


def test_a_journal_is_shown_by_a_process_of_its_own(target: MlflowTarget, tmp_path: Path) -> None:
    tracker = MlflowTracker(target, log=tmp_path / "projector.log")
    for fact in FACTS:
        tracker.publish([fact])
    place = tracker.close(timeout_s=120)

    (run,) = Page(target).runs()
    assert place == f"{target.uri} (run {run.info.run_id})"
    assert run.info.status == "FINISHED"
    assert run.data.metrics["summary/success_rate"] == 0.5


def test_the_projector_imports_neither_pandas_nor_pyarrow(target: MlflowTarget) -> None:
    told = "".join(f"{each.to_json()}\n" for each in (target, Farewell()))
    with subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "openeta_exp.adapters.tracking.projector"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    ) as projector:
        assert projector.stdin is not None
        assert projector.stderr is not None
        projector.stdin.write(told)
        projector.stdin.flush()
        lines = projector.stderr.read().splitlines()
    imported = {line.rpartition("|")[2].strip() for line in lines}

    assert projector.returncode == 0
    assert "mlflow.tracking" in imported
    assert not imported & {"pandas.core.frame", "pyarrow.lib"}


def test_a_server_that_never_answers_is_given_up_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        tracker = MlflowTracker(
            MlflowTarget(uri=f"http://127.0.0.1:{port}", artifact_root=None, experiment_name="e"),
            log=tmp_path / "projector.log",
        )
        projector = os.pidfd_open(projector_of(tracker))
        with caplog.at_level(logging.WARNING):
            tracker.publish(FACTS)
            assert tracker.close(timeout_s=0.2) is None

    wait_until_gone(projector)
    (record,) = caplog.records
    assert "nothing is lost" in record.getMessage()


def test_a_projector_that_cannot_work_is_told_once_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracker = MlflowTracker(
        MlflowTarget(uri="sqlite:///x", artifact_root=None, experiment_name="e"),
        log=tmp_path / "projector.log",
    )
    os.kill(projector_of(tracker), signal.SIGKILL)
    tracker.publish(FACTS)
    with caplog.at_level(logging.WARNING):
        assert tracker.close(timeout_s=60) is None

    assert len(caplog.records) == 1


def test_the_projector_ends_by_itself_when_the_run_is_killed(tmp_path: Path) -> None:
    body = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from openeta_exp.adapters.tracking.messages import Farewell, MlflowTarget
        from openeta_exp.adapters.tracking.mlflow_tracker import MlflowTracker
        from tests.batches import manifest, story

        root = Path(sys.argv[1])
        tracker = MlflowTracker(
            MlflowTarget.below(root, experiment_name="e"), log=root / "projector.log"
        )
        tracker.publish(enumerate(story(manifest(1), []), start=1))
        while tracker._process is None:
            pass
        print(tracker._process.pid, flush=True)
        sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", body, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    ) as run:
        assert run.stdout is not None
        projector = os.pidfd_open(int(run.stdout.readline()))
        run.kill()

    wait_until_gone(projector)

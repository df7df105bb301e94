"""`command=capacity` says of every environment that it worked, or what broke."""

from __future__ import annotations

import pytest

from openeta_exp.domain.episode import Cleanup, CleanupStatus, EpisodeOutcome, EpisodeUsage
from openeta_exp.domain.stop import StopReason
from openeta_exp.reporting.capacity_view import CapacityProgress, environment_line, has_worked
from tests import batches

WORKED = batches.won(
    batches.spec(0), success=False, stop_reason=StopReason.TASK_COMPLETE
).model_copy(update={"usage": EpisodeUsage(turns=1, duration_s=4.24)})
BROKE = batches.broke(batches.spec(0))


LATE = WORKED.model_copy(update={"stop_reason": StopReason.EPISODE_TIMEOUT, "limit": 3.5})


def ended(outcome: EpisodeOutcome, status: CleanupStatus, message: str = "") -> EpisodeOutcome:
    return outcome.model_copy(update={"cleanup": Cleanup(status=status, message=message)})


BROKEN: dict[str, tuple[EpisodeOutcome, str]] = {
    "not opened": (
        BROKE,
        "could not be opened: provider_unavailable: the endpoint did not answer (after 0.5 s)",
    ),
    "not reset": (
        ended(BROKE, CleanupStatus.CLOSED),
        "broke once open: provider_unavailable: the endpoint did not answer (after 0.5 s)",
    ),
    "neither reset nor closed": (
        ended(BROKE, CleanupStatus.FAILED, "no reply"),
        "broke once open: provider_unavailable: the endpoint did not answer; could not be closed: "
        "no reply (after 0.5 s)",
    ),
    "not closed": (
        ended(WORKED, CleanupStatus.FAILED, "no reply"),
        "could not be closed: no reply (after 4.2 s)",
    ),
    "not closed, for no reason": (
        ended(WORKED, CleanupStatus.FAILED),
        "could not be closed: no reason was given (after 4.2 s)",
    ),
    "opened too late": (
        ended(LATE, CleanupStatus.NOT_OPENED),
        "was not opened within its timeout_s = 3.5 (after 4.2 s)",
    ),
    "reset too late": (
        LATE,
        "was not reset within its timeout_s = 3.5 (after 4.2 s)",
    ),
}


def test_an_environment_that_worked_is_told_with_its_seconds_and_no_failure() -> None:
    assert has_worked(WORKED)
    assert environment_line(WORKED) == "episode-0: opened, reset and closed in 4.2 s"


def test_an_environment_whose_task_is_solved_at_reset_has_worked() -> None:
    assert has_worked(batches.won(batches.spec(0), success_at_reset=True))


@pytest.mark.parametrize(("outcome", "words"), BROKEN.values(), ids=BROKEN)
def test_an_environment_that_did_not_work_is_told_with_what_broke(
    outcome: EpisodeOutcome, words: str
) -> None:
    assert not has_worked(outcome)
    assert environment_line(outcome) == f"episode-0: {words}"


def test_every_environment_has_its_line() -> None:
    said: list[str] = []
    progress = CapacityProgress(said.append)

    progress.batch_started(batches.started(batches.manifest(2)), already_done=0)
    progress.episode_started(batches.spec(0))
    progress.episode_ended(WORKED)
    progress.episode_ended(BROKE)
    progress.batch_ended(interrupted=True)

    assert said == [
        "environments to open: 2, 4 at once",
        "[1/2] episode-0: opened, reset and closed in 4.2 s",
        f"[2/2] {environment_line(BROKE)}",
        "interrupted; environments are closed",
    ]

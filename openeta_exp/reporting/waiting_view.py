"""What waits for a person, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from openeta_exp.domain.approval import ApprovalRequest
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.identity import JsonObject, SessionId
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.domain.record import canonical_json
from openeta_exp.domain.summary import EpisodeStatus, status_of
from openeta_exp.reporting.summary_view import HOW_TO_ANSWER

_LONGEST = 160


def waiting_view(
    questions: Sequence[PausedEpisode],
    calls: Sequence[tuple[str, ApprovalRequest]],
    *,
    now_s: float,
) -> RenderableType:
    """Each question and call with the command that answers it.

    Args:
        calls: With the experiment each belongs to.
    """
    if not questions and not calls:
        return Text("nothing waits for a person")
    parts: list[RenderableType] = []
    for paused in questions:
        now = paused.interaction
        rows = _rows(
            ("experiment", f"{paused.experiment_id}, {paused.phase}, {paused.spec.episode_id}"),
            ("task", paused.spec.task),
            ("asks", now.question),
            ("since", _ago(now_s - paused.created_at_s)),
            (
                "answer",
                f"command=resume session_id={paused.outcome.session_id} "
                f'interaction_id={now.interaction_id} answer="..."',
            ),
        )
        parts.append(rows)
    for experiment_id, request in calls:
        content = canonical_json(request.content).decode("utf-8")
        rows = _rows(
            ("experiment", f"{experiment_id}, session {request.session_id}"),
            ("task", request.task),
            (request.kind.value.replace("_", " "), f"{request.name} {content[:_LONGEST]}"),
            ("because", request.reasoning or "-"),
            ("since", f"{_ago(now_s - request.asked_at_s)}; {_left(request, now_s)}"),
            ("answer", f"command=approve|deny interaction_id={request.interaction_id}"),
        )
        parts.append(rows)
    return Group(*parts)


def nothing_to_run(
    outcomes: Sequence[EpisodeOutcome], *, answered: Collection[SessionId]
) -> tuple[str, ...]:
    """Why a command has nothing to run although it was asked to, and how it goes on.

    Args:
        outcomes: Of all its episodes.
        answered: Sessions whose question has its answer and whose episode has not ended since.
    """
    sessions = [
        outcome.session_id for outcome in outcomes if status_of(outcome) is EpisodeStatus.NEED_HUMAN
    ]
    if not sessions:
        return ("every episode has a verdict from before; fresh=true runs them again",)
    waiting = [session for session in sessions if session not in answered]
    lines = [
        f"session {session} was answered and its episode has not ended since; "
        f"`command=resume session_id={session}` goes on with it"
        for session in sessions
        if session in answered
    ]
    if waiting:
        lines.append(
            f"episodes that wait for a person: {len(waiting)} of {len(outcomes)}; {HOW_TO_ANSWER}"
        )
    return tuple(lines)


def _rows(*rows: tuple[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    table.add_row("", "")
    return table


def _ago(seconds: float) -> str:
    minutes = max(0, int(seconds)) // 60
    return f"{minutes // 60} h {minutes % 60} min ago" if minutes >= 60 else f"{minutes} min ago"


def _left(request: ApprovalRequest, now_s: float) -> str:
    left_s = request.expires_at_s - now_s
    return f"{left_s:.0f} s are left" if left_s > 0 else "its run has ended"


def waiting_json(
    questions: Sequence[PausedEpisode], calls: Sequence[tuple[str, ApprovalRequest]]
) -> JsonObject:
    """The same for a program."""
    questions_json: list[JsonValue] = [
        {
            "experiment_id": paused.experiment_id,
            "batch_id": paused.batch_id,
            "episode_id": paused.spec.episode_id,
            "session_id": paused.outcome.session_id,
            "interaction_id": paused.interaction.interaction_id,
            "question": paused.interaction.question,
            "task": paused.spec.task,
            "env_id": paused.spec.env_id,
            "seed": paused.spec.seed,
            "profile": paused.profile.value,
            "created_at_s": paused.created_at_s,
        }
        for paused in questions
    ]
    calls_json: list[JsonValue] = [
        {
            "experiment_id": experiment_id,
            "interaction_id": request.interaction_id,
            **request.model_dump(mode="json", exclude={"schema_version"}),
        }
        for experiment_id, request in calls
    ]
    return {
        "schema_version": "openeta_exp.pending.v1",
        "questions": questions_json,
        "approvals": calls_json,
    }

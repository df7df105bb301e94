"""Why an episode ended, and what kind of thing went wrong when it did not end well."""

from __future__ import annotations

from enum import StrEnum


class StopReason(StrEnum):
    """Why the turn loop ended. The environment terminates; a budget truncates."""

    ENVIRONMENT_SUCCESS = "environment_success"
    """The environment's checker said so and ended the episode."""
    ENVIRONMENT_TERMINATED = "environment_terminated"
    """The environment ended the episode without success."""
    TASK_COMPLETE = "task_complete"
    """The planner claimed to be done. A claim, never a success."""
    STATUS_REPORT = "status_report"
    """The planner answered with talk, which ends an unattended episode."""
    NEED_HUMAN = "need_human"
    """The planner asked and nobody but a person may answer: paused, not over."""
    NEED_HUMAN_UNATTENDED = "need_human_in_unattended_run"
    MAX_TURNS = "max_turns"
    EPISODE_TIMEOUT = "episode_timeout"
    TOKEN_LIMIT_EXCEEDED = "token_limit_exceeded"
    TOOL_CALL_LIMIT_EXCEEDED = "tool_call_limit_exceeded"
    PLANNER_VALIDATION_FAILED = "planner_validation_failed"
    """The planner's answers stayed invalid after every retry."""
    SUPERVISION_DENIED = "supervision_denied"
    """More world-mutating calls were denied than the profile allows."""


class FailureClass(StrEnum):
    """Who is to blame when an episode is not a success. Exactly one, never a guess from text."""

    NONE = "none"
    """It succeeded, or waits for a person."""
    AGENT = "agent"
    """The agent ran freely and did not solve the task."""
    PLANNER_FORMAT = "planner_format"
    BUDGET = "budget"
    HUMAN = "human"
    """A person was needed and none was there, or supervision refused."""
    INVALID = "invalid"
    """The episode cannot count: success was already true at reset."""
    PROVIDER = "provider"
    SIMULATOR = "simulator"
    PERCEPTION = "perception"
    POLICY_SERVER = "policy_server"
    STORE = "store"


INFRASTRUCTURE = frozenset(
    {
        FailureClass.PROVIDER,
        FailureClass.SIMULATOR,
        FailureClass.PERCEPTION,
        FailureClass.POLICY_SERVER,
        FailureClass.STORE,
    }
)
"""Classes that say nothing about the agent: such an episode has no verdict."""


def failure_class_of(reason: StopReason) -> FailureClass:
    """Who is to blame for an episode that ended this way without success."""
    match reason:
        case StopReason.ENVIRONMENT_SUCCESS | StopReason.NEED_HUMAN:
            return FailureClass.NONE
        case StopReason.PLANNER_VALIDATION_FAILED:
            return FailureClass.PLANNER_FORMAT
        case (
            StopReason.MAX_TURNS
            | StopReason.EPISODE_TIMEOUT
            | StopReason.TOKEN_LIMIT_EXCEEDED
            | StopReason.TOOL_CALL_LIMIT_EXCEEDED
        ):
            return FailureClass.BUDGET
        case StopReason.NEED_HUMAN_UNATTENDED | StopReason.SUPERVISION_DENIED:
            return FailureClass.HUMAN
        case (
            StopReason.ENVIRONMENT_TERMINATED | StopReason.TASK_COMPLETE | StopReason.STATUS_REPORT
        ):
            return FailureClass.AGENT

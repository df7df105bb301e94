"""Who stands at the gate and who answers questions, by approvement profile."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.adapters.supervision.folder_inbox import FolderApprovalInbox
from openeta_exp.adapters.supervision.human_gate import HumanGate, HumanSkillJudge, People
from openeta_exp.adapters.supervision.model_action_reviewer import ModelActionReviewer
from openeta_exp.adapters.supervision.model_guidance import ModelGuidance
from openeta_exp.adapters.supervision.model_skill_author import ModelSkillReviewer
from openeta_exp.domain.approval import AnsweredBy, ApprovalAnswer, ApprovalKind, ApprovalRequest
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.event import Arm, BatchStarted
from openeta_exp.domain.identity import Digest, JsonObject
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.pause import PausedEpisode
from openeta_exp.domain.supervision import ApprovementProfile
from openeta_exp.engine.interaction import BoundedGuidance, NobodyAnswers
from openeta_exp.engine.pause import KeepPaused
from openeta_exp.engine.supervision import RuntimeChecksGate
from openeta_exp.ports.clock import Clock
from openeta_exp.ports.guidance import Guidance
from openeta_exp.ports.interactions import PausedEpisodes
from openeta_exp.ports.provider import Provider
from openeta_exp.ports.skill_author import SkillJudge
from openeta_exp.ports.supervision import ActionGate
from openeta_exp.reporting.console import Console
from openeta_exp.reporting.prompt import TerminalPrompt, terminal_is_there
from openeta_exp.settings.command import RunSettings
from openeta_exp.settings.experiment import ExperimentSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedIn:
    """The batch an episode pauses in."""

    experiment_id: str
    generation: int
    phase: str
    batch_id: str
    manifest_digest: Digest
    arm: Arm
    config: JsonObject
    profile: ApprovementProfile


def keep_paused_of(settings: ExperimentSettings, batch: BatchStarted) -> KeepPaused:
    """Keeps the episodes of a batch that wait for a person, below its experiment."""
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    where = PausedIn(
        experiment_id=batch.experiment_id,
        generation=batch.generation,
        phase=batch.phase,
        batch_id=batch.batch_id,
        manifest_digest=batch.manifest.content_digest,
        arm=batch.arm,
        config=batch.config,
        profile=ApprovementProfile(settings.approvement.profile),
    )
    return keep_paused(where, FolderPausedEpisodes(layout.interactions), SystemClock())


def keep_paused(
    batch: PausedIn | PausedEpisode, records: PausedEpisodes, clock: Clock
) -> KeepPaused:
    """Keeps an episode with everything it takes to start it again."""

    def keep(outcome: EpisodeResult, *, spec: EpisodeSpec, asked: tuple[str, ...]) -> None:
        records.keep(
            PausedEpisode(
                experiment_id=batch.experiment_id,
                generation=batch.generation,
                phase=batch.phase,
                batch_id=batch.batch_id,
                manifest_digest=batch.manifest_digest,
                arm=batch.arm,
                config=batch.config,
                profile=batch.profile,
                spec=spec,
                outcome=outcome,
                asked=asked,
                created_at_s=clock.unix_s(),
            )
        )

    return keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisors:
    """What a profile puts between an agent and the world."""

    gate: ActionGate
    guidance: Guidance
    skill_judge: SkillJudge | None
    """None: a change that keeps the limits stays the session's own proposal."""


def people(settings: ExperimentSettings, clock: Clock, console: Console) -> People:
    """Whoever answers for this experiment, at the terminal or through the inbox."""
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    prompt = TerminalPrompt(console) if terminal_is_there() else None
    return People(
        inbox=FolderApprovalInbox(layout.approvals),
        clock=clock,
        timeout_s=settings.approvement.timeout_s,
        prompt=prompt,
        watch=partial(_tell, settings, console, prompt is not None),
    )


def _tell(
    settings: ExperimentSettings,
    console: Console,
    at_the_terminal: bool,
    request: ApprovalRequest,
    answer: ApprovalAnswer | None,
) -> None:
    """Say that a person is waited for, where no prompt does, and that none came."""
    what = f"{request.kind.value.replace('_', ' ')} {request.name}"
    within = f"{settings.approvement.timeout_s:g} s"
    if answer is None and not at_the_terminal:
        usual = ExperimentSettings.model_fields["output_root"].default
        root = settings.output_root
        of = "" if root == usual else " " + shlex.quote(f"output_root={root}")
        console.note(
            f"{what} waits up to {within} for a person:\n"
            f"  see it: command=pending{of}\n"
            f"  answer: command=approve interaction_id={request.interaction_id}{of}\n"
            f"      or: command=deny interaction_id={request.interaction_id}{of}"
        )
    if answer is not None and answer.by is AnsweredBy.TIMEOUT:
        console.note(f"nobody decided on {what} within {within}{_way_on(settings, request)}")


def _way_on(settings: ExperimentSettings, request: ApprovalRequest) -> str:
    pauses = settings.on_need_human == "pause" or not isinstance(settings.command, RunSettings)
    if pauses or request.kind is not ApprovalKind.TOOL_CALL:
        return ""
    return (
        ", and its episode ends with on_need_human=fail; on_need_human=pause keeps it until "
        "`command=resume` answers"
    )


def supervisors(
    settings: ExperimentSettings, provider: Provider, clock: Clock, console: Console
) -> Supervisors:
    """The host's choice; nothing an agent says or writes can change it."""
    profile = ApprovementProfile(settings.approvement.profile)
    match profile:
        case ApprovementProfile.STANDARD:
            return Supervisors(gate=RuntimeChecksGate(), guidance=NobodyAnswers(), skill_judge=None)
        case ApprovementProfile.REVIEWED_AUTONOMY:
            return Supervisors(
                gate=ModelActionReviewer(provider),
                guidance=BoundedGuidance(ModelGuidance(provider)),
                skill_judge=ModelSkillReviewer(provider, name="skill_reviewer"),
            )
        case ApprovementProfile.HUMAN_GATED:
            asked = people(settings, clock, console)
            return Supervisors(
                gate=HumanGate(asked),
                guidance=NobodyAnswers(),
                skill_judge=HumanSkillJudge(asked),
            )
        case _:
            assert_never(profile)

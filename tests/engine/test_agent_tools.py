"""Skills, notes and limits of a session: who may change them, and where the change goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from openeta_exp.adapters.store.layout import PhaseLayout
from openeta_exp.adapters.store.session_log import FolderSessionLogs
from openeta_exp.adapters.supervision.folder_inbox import FolderApprovalInbox
from openeta_exp.adapters.supervision.human_gate import HumanSkillJudge, People
from openeta_exp.adapters.supervision.model_skill_author import ModelSkillAuthor, ModelSkillReviewer
from openeta_exp.domain.approval import ApprovalRequest
from openeta_exp.domain.artifact import Artifact, ArtifactKind, ArtifactTree
from openeta_exp.domain.decision import Finish
from openeta_exp.domain.episode import EpisodeResult
from openeta_exp.domain.identity import EpisodeId, SessionId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.domain.skill import Skill, render_skill
from openeta_exp.domain.tool import ToolCall
from openeta_exp.embedded.models.registry import MODELS
from openeta_exp.engine.episode import AgentTools, run_episode
from openeta_exp.engine.skill_changes import SkillChanges
from openeta_exp.ports.skill_author import SkillJudge
from tests.manual_clock import SkippingClock
from tests.speaking import TOKENS, SpeakingProvider
from tests.worlds import MOVE, OBSERVE, OPEN, Logs, Saying, calls, world

pytestmark = pytest.mark.anyio

SPEC = EpisodeSpec(episode_id=EpisodeId("one"), env_id="memory", task="pick up the can")
CURRENT = Skill(
    name="pick",
    description="Pick the can.",
    allowed_tools=("move_to",),
    content="# Pick\n\n## Recovery\n- If a step fails, look again.",
)
WISH = "Before closing on the can, use move_to a second time and recover when that fails."


def tree(*skills: Skill) -> ArtifactTree:
    return ArtifactTree(
        artifacts=tuple(
            Artifact(kind=ArtifactKind.SKILL, name=each.name, text=render_skill(each))
            for each in skills
        )
    )


def update(name: str = "pick", wish: str = WISH) -> ToolCall:
    return ToolCall(name="update_skill", arguments={"name": name, "wish": wish})


def judge(profile: str, tmp_path: Path) -> SkillJudge | None:
    async def person(asked: ApprovalRequest) -> tuple[bool, str]:
        return profile == "a person agrees", "read it"

    match profile:
        case "standard":
            return None
        case "the reviewer agrees":
            model = MODELS["scripted-skill-reviewer"]
            return ModelSkillReviewer(SpeakingProvider(model), name="reviewer")
        case "the reviewer rejects":
            return ModelSkillReviewer(SpeakingProvider('{"decision": "reject"}'), name="reviewer")
        case _:
            inbox = FolderApprovalInbox(tmp_path)
            people = People(inbox=inbox, clock=SkippingClock(), timeout_s=5.0, prompt=person)
            return HumanSkillJudge(people)


@pytest.mark.parametrize(
    ("profile", "written", "requests", "humans"),
    [
        ("standard", True, 1, 0),
        ("the reviewer agrees", True, 2, 0),
        ("the reviewer rejects", False, 2, 0),
        ("a person agrees", True, 1, 1),
        ("a person refuses", False, 1, 1),
    ],
)
async def test_a_skill_changes_by_the_rules_of_the_profile(
    profile: str, written: bool, requests: int, humans: int, tmp_path: Path
) -> None:
    logs = Logs()
    author = ModelSkillAuthor(SpeakingProvider(MODELS["scripted-skill-author"]))
    base = world(Saying(calls(update()), Finish(), tokens=10), logs=logs)
    changes = SkillChanges(author=author, judge=judge(profile, tmp_path))

    outcome = await run_episode(
        SPEC,
        world=replace(base, tree=tree(CURRENT), agent_tools=AgentTools(skill_changes=changes)),
    )

    assert isinstance(outcome, EpisodeResult)
    (skill,) = logs.tree().skills()
    (result,) = logs.traces[0].results
    assert result.success is written
    assert (WISH in skill.content) is written
    if not written:
        assert result.diagnostics[0].code == "skill_change_denied"
    assert outcome.usage.model_requests == 2 + requests
    assert outcome.usage.tokens.total_tokens == 20 + TOKENS * requests
    assert outcome.assistance.human_interventions == humans


async def test_a_change_is_on_disk_in_the_session_and_nowhere_else(tmp_path: Path) -> None:
    logs = FolderSessionLogs(PhaseLayout(tmp_path), frames="none")
    author = ModelSkillAuthor(SpeakingProvider(MODELS["scripted-skill-author"]))
    baseline = tree(CURRENT)
    base = world(Saying(calls(update()), Finish()))
    changes = SkillChanges(author=author, judge=None)

    outcome = await run_episode(
        SPEC,
        world=replace(
            base, tree=baseline, sessions=logs, agent_tools=AgentTools(skill_changes=changes)
        ),
    )

    left = logs.reopen(outcome.session_id).tree()
    assert [each.name for each in left.changed_from(baseline)] == ["pick"]
    assert baseline.skills() == (CURRENT,)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (update(name="stack"), "unknown_skill"),
        (ToolCall(name="register_skill", arguments={"name": "pick", "wish": WISH}), "skill_exists"),
    ],
)
async def test_new_and_changed_skills_are_not_confused(call: ToolCall, code: str) -> None:
    logs = Logs()
    author = ModelSkillAuthor(SpeakingProvider(MODELS["scripted-skill-author"]))
    changes = SkillChanges(author=author, judge=None)
    base = world(Saying(calls(call), Finish()), logs=logs)

    await run_episode(
        SPEC,
        world=replace(base, tree=tree(CURRENT), agent_tools=AgentTools(skill_changes=changes)),
    )

    assert logs.traces[0].results[0].diagnostics[0].code == code


async def test_a_closed_skill_stays_as_it_is() -> None:
    logs = Logs()
    author = ModelSkillAuthor(SpeakingProvider(MODELS["scripted-skill-author"]))
    closed = CURRENT.model_copy(update={"editable": False})
    base = world(Saying(calls(update()), Finish()), logs=logs)
    changes = SkillChanges(author=author, judge=None)

    await run_episode(
        SPEC, world=replace(base, tree=tree(closed), agent_tools=AgentTools(skill_changes=changes))
    )

    assert logs.traces[0].results[0].diagnostics[0].code == "skill_limits"
    assert logs.tree().skills() == (closed,)


@pytest.mark.parametrize("enforced", [True, False])
async def test_the_skill_in_use_decides_which_tools_act_if_that_is_asked_for(
    enforced: bool,
) -> None:
    logs = Logs()
    other = CURRENT.model_copy(update={"name": "open", "allowed_tools": ("gripper_control",)})
    read = ToolCall(name="read_skill", arguments={"name": "open"})
    planner = Saying(calls(OPEN), calls(OBSERVE), calls(read), calls(OPEN), Finish())
    base = world(planner, logs=logs)

    await run_episode(
        SPEC,
        world=replace(
            base,
            tree=tree(CURRENT, other),
            agent_tools=AgentTools(enforce_allowed_tools=enforced),
        ),
    )

    first = logs.traces[0].results[0]
    assert first.success is not enforced
    if enforced:
        assert first.diagnostics[0].code == "tool_not_allowed_by_skill"
        assert all(trace.results[0].success for trace in logs.traces[1:4])


async def test_memory_is_kept_through_to_the_session_and_shown_every_turn(tmp_path: Path) -> None:
    logs = FolderSessionLogs(PhaseLayout(tmp_path), frames="none")
    note = ToolCall(
        name="save_memory", arguments={"namespace": "facts", "key": "rim", "value": {"z": 0.1}}
    )
    planner = Saying(calls(note), calls(MOVE), Finish())

    outcome = await run_episode(SPEC, world=replace(world(planner), sessions=logs))

    assert planner.contexts[1].host_state["memory"] == {"facts/rim": '{"z":0.1}'}
    again = logs.reopen(SessionId(outcome.session_id)).memory()
    assert [(each.key, each.value) for each in again.entries] == [("rim", {"z": 0.1})]

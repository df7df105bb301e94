"""The scripted planner in conversation with a host, worded as a planner session words it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from openeta_exp.domain.decision import AskHuman, CallTools, Finish, Talk
from openeta_exp.domain.grasp_strategy import (
    Activation,
    GeometryFamily,
    GraspHeight,
    GraspStrategy,
    Orientation,
    Release,
    parse_strategy,
)
from openeta_exp.domain.model import ModelMessage
from openeta_exp.domain.skill import Skill, parse_skill
from openeta_exp.domain.tool import ToolEffect, ToolSpec
from openeta_exp.embedded.models.planner.model import MAX_ATTEMPTS, scripted_planner
from openeta_exp.wire.agent_command import parse_command
from openeta_exp.wire.planner_context import MAX_SKILL_CHARACTERS
from tests.embedded.models.table_host import (
    TOOLS,
    Dialogue,
    TableWorld,
    Thing,
    hold,
    replace_content,
    without,
    won,
)

TASK = "pick up the alphabet soup and place it in the basket"
SHIPPED = Path(__file__).parents[3] / "openeta_exp" / "embedded" / "baselines"


@pytest.fixture(scope="module")
def skill() -> Skill:
    path = SHIPPED / "standard" / "skills" / "pick_and_place.md"
    return parse_skill(path.read_text(encoding="utf-8"), source=path.name)


@pytest.fixture(scope="module")
def strategy() -> GraspStrategy:
    path = SHIPPED / "standard" / "grasp_strategies" / "top_grasp.json"
    return parse_strategy(path.read_text(encoding="utf-8"), source=path.name)


def world(
    *,
    unreachable: frozenset[str] = frozenset(),
    duplicates: frozenset[str] = frozenset(),
    failing: frozenset[str] = frozenset(),
    without_target: bool = False,
) -> TableWorld:
    things = {
        "alphabet soup": Thing((0.1, 0.1, 0.0)),
        "basket": Thing((-0.2, 0.3, 0.0), height_m=0.14),
    }
    if without_target:
        del things["alphabet soup"]
        things["something else"] = Thing((0.1, 0.1, 0.0))
    return TableWorld(
        things=things,
        target="something else" if without_target else "alphabet soup",
        goal="basket",
        unreachable_contacts=unreachable,
        duplicates=duplicates,
        failing_tools=failing,
    )


def plan(
    skill: Skill,
    *strategies: GraspStrategy,
    where: TableWorld | None = None,
    task: str = TASK,
    tools: tuple[ToolSpec, ...] = TOOLS,
) -> Dialogue:
    return hold(
        scripted_planner,
        where or world(),
        task=task,
        skills=[skill],
        strategies=strategies,
        tools=tools,
    )


def moving(strategy: GraspStrategy, **update: object) -> GraspStrategy:
    motion = strategy.motion_policy.model_copy(update=update)
    return strategy.model_copy(update={"motion_policy": motion})


def test_the_standard_skill_and_strategy_solve_the_task(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(skill, strategy)

    assert won(dialogue)
    assert dialogue.batches == [
        ["sam3", "sam3"],
        ["measure_detection", "anygrasp"],
        ["compile_grasp_seed"],
        ["gripper_control"],
        ["move_to"],
        ["move_to"],
        ["gripper_control"],
        ["move_to"],
        ["move_to"],
        ["move_to"],
        ["gripper_control"],
    ]


def test_the_same_words_get_the_same_answer(skill: Skill, strategy: GraspStrategy) -> None:
    assert plan(skill, strategy) == plan(skill, strategy)


def test_a_strategy_that_closes_too_briefly_loses_and_says_so(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(skill, moving(strategy, close_steps=4))

    closings = [
        call.arguments["num_steps"]
        for call in dialogue.calls
        if call.name == "gripper_control" and call.arguments["position"] == 0
    ]
    assert closings == [4] * MAX_ATTEMPTS
    assert dialogue.last == Finish(
        claims_success=False, reasoning="Giving up: the gripper is empty."
    )


def test_the_lift_height_of_the_strategy_is_the_height_of_transport(
    skill: Skill, strategy: GraspStrategy
) -> None:
    high, low = (
        plan(skill, moving(strategy, lift_height_m=height)).moves[2:4] for height in (0.4, 0.2)
    )

    assert [move["z"] for move in high] == [0.4, 0.4]
    assert [move["z"] for move in low] == [0.2, 0.2]


def test_grasp_parameters_reach_the_tool_as_the_strategy_states_them(
    skill: Skill, strategy: GraspStrategy
) -> None:
    changed = moving(
        strategy,
        approach_height_m=0.07,
        grasp_height=GraspHeight(reference="centre", offset_m=0.01, floor_m=0.02),
    ).model_copy(
        update={
            "pose_policy": strategy.pose_policy.model_copy(
                update={"orientation": Orientation.TOP_DOWN}
            ),
            "candidate_filter": strategy.candidate_filter.model_copy(
                update={"min_downward_alignment": 0.5, "avoid_collisions": False}
            ),
        }
    )
    calls = plan(skill, changed).calls

    assert next(call.arguments for call in calls if call.name == "compile_grasp_seed") == {
        "candidate_id": "grasp_000",
        "orientation": "top_down",
        "grasp_height": {"reference": "centre", "offset_m": 0.01, "floor_m": 0.02},
        "approach_height_m": 0.07,
        "min_downward_alignment": 0.5,
    }
    assert not next(
        call.arguments["collision_detection"] for call in calls if call.name == "anygrasp"
    )


def test_lowering_puts_the_bottom_of_the_object_just_above_the_floor_of_the_goal(
    skill: Skill, strategy: GraspStrategy
) -> None:
    release = Release(mode="lower", clearance_m=0.05)
    lowered = plan(skill, moving(strategy, release=release)).moves[4]

    # Gripped at 0.072 above the floor the can stands on, so that much above the clearance.
    assert lowered["z"] == pytest.approx(0.05 + 0.072)


def test_something_put_on_a_goal_is_lowered_onto_its_top(
    skill: Skill, strategy: GraspStrategy
) -> None:
    lowered = plan(skill, strategy, task="put the alphabet soup on the basket").moves[4]

    assert lowered["z"] == pytest.approx(0.14 + 0.02 + 0.072)


def test_release_mode_drop_lets_go_at_transport_height(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(skill, moving(strategy, release=Release(mode="drop")))

    heights = [move["z"] for move in dialogue.moves]
    assert heights == pytest.approx([0.192, 0.072, 0.3, 0.3])


def test_transport_keeps_the_orientation_of_the_grasp(
    skill: Skill, strategy: GraspStrategy
) -> None:
    assert {move["yaw"] for move in plan(skill, strategy).moves} == {30.0}


def test_a_deleted_step_is_not_made_up(skill: Skill, strategy: GraspStrategy) -> None:
    names = [call.name for call in plan(without(skill, 9), strategy).calls]

    assert names.count("gripper_control") == 2
    assert not won(plan(without(skill, 9), strategy))


def test_without_the_measurement_of_the_goal_nothing_is_carried(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(without(skill, 3), strategy)

    assert "measure_detection" not in [call.name for call in dialogue.calls]
    # Hover, contact, lift and retreat: nobody said where the goal is.
    assert len(dialogue.moves) == 4
    assert not won(dialogue)


def test_reordered_steps_are_followed_in_their_new_order(
    skill: Skill, strategy: GraspStrategy
) -> None:
    lines = skill.content.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("6. "))
    opening = lines.pop(at)
    first = next(at for at, line in enumerate(lines) if line.startswith("1. "))
    lines.insert(first, opening)
    dialogue = plan(replace_content(skill, "\n".join(lines)), strategy)

    assert dialogue.batches[0] == ["gripper_control"]
    assert won(dialogue)


def test_a_call_is_not_batched_with_the_one_whose_output_it_needs(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(
        replace_content(
            skill,
            "## Tool sequence\n1. `sam3` target: a\n2. `anygrasp` target: b\n"
            "3. `compile_grasp_seed` active: c\n",
        ),
        strategy,
    )

    assert dialogue.batches == [["sam3"], ["anygrasp"], ["compile_grasp_seed"]]


def test_a_missed_grasp_goes_on_with_the_next_candidate_where_the_skill_says(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(skill, strategy, where=world(unreachable=frozenset({"grasp_000"})))

    compiled = [
        call.arguments["candidate_id"]
        for call in dialogue.calls
        if call.name == "compile_grasp_seed"
    ]
    assert compiled == ["grasp_000", "grasp_001"]
    assert won(dialogue)


def test_without_a_recovery_rule_a_missed_grasp_closes_where_it_stands(
    skill: Skill, strategy: GraspStrategy
) -> None:
    content = skill.content.split("## Recovery")[0]
    where = world(unreachable=frozenset({"grasp_000"}))
    dialogue = plan(replace_content(skill, content), strategy, where=where)

    names = [call.name for call in dialogue.calls]
    assert names.count("compile_grasp_seed") == 1


def test_with_no_candidate_left_the_gripper_closes_where_it_stands(
    skill: Skill, strategy: GraspStrategy
) -> None:
    where = world(unreachable=frozenset({"grasp_000", "grasp_001"}))
    dialogue = plan(skill, strategy, where=where)

    names = [call.name for call in dialogue.calls]
    last_compile = len(names) - 1 - names[::-1].index("compile_grasp_seed")
    assert names.count("compile_grasp_seed") == 2
    assert names[last_compile:][:5] == [
        "compile_grasp_seed",
        "gripper_control",
        "move_to",
        "move_to",
        "gripper_control",
    ]


def test_the_better_of_two_detections_is_selected_before_anything_else(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(skill, strategy, where=world(duplicates=frozenset({"alphabet soup"})))

    assert dialogue.batches[1] == ["select_sam3_detection"]
    assert dialogue.calls[2].arguments == {"detection_id": "detection_000"}
    assert won(dialogue)


def test_a_target_that_nobody_sees_is_given_up_after_three_looks(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(skill, strategy, where=world(without_target=True))

    assert dialogue.batches == [["sam3", "sam3"]] * MAX_ATTEMPTS
    assert isinstance(dialogue.last, Finish)
    assert not dialogue.last.claims_success


def test_a_tool_that_always_fails_is_not_called_for_ever(
    skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = plan(skill, strategy, where=world(failing=frozenset({"anygrasp"})))

    assert [call.name for call in dialogue.calls].count("anygrasp") == MAX_ATTEMPTS
    assert dialogue.last == Finish(claims_success=False, reasoning="Giving up: anygrasp failed.")


def test_the_first_strategy_that_fits_the_target_is_used(
    skill: Skill, strategy: GraspStrategy
) -> None:
    for_bowls = moving(strategy, lift_height_m=0.5).model_copy(
        update={"automatic_activation": Activation(target_geometry_families=(GeometryFamily.BOWL,))}
    )
    for_cans = moving(strategy, lift_height_m=0.4).model_copy(
        update={
            "automatic_activation": Activation(
                target_geometry_families=(GeometryFamily.UPRIGHT_CAN,)
            )
        }
    )

    assert plan(skill, for_bowls, for_cans, strategy).moves[2]["z"] == 0.4
    assert plan(skill, for_bowls, strategy, for_cans).moves[2]["z"] == 0.3


@pytest.mark.parametrize("task", ["dance", "pick up both cans and place them in the basket", ""])
def test_a_task_it_cannot_read_is_asked_about(
    task: str, skill: Skill, strategy: GraspStrategy
) -> None:
    assert isinstance(plan(skill, strategy, task=task).last, AskHuman)


def test_guidance_that_words_the_task_is_followed(skill: Skill, strategy: GraspStrategy) -> None:
    dialogue = hold(
        scripted_planner,
        world(),
        task="tidy up",
        skills=[skill],
        strategies=[strategy],
        guidance=["be careful", "Put the alphabet soup in the basket."],
    )

    assert [decision.kind for decision in dialogue.decisions[:3]] == [
        "ask_human",
        "ask_human",
        "call_tools",
    ]
    assert won(dialogue)


@pytest.mark.parametrize("history_turns", [1, 3, 5, 9])
def test_a_history_that_is_too_short_ends_in_giving_up_and_not_in_a_loop(
    history_turns: int, skill: Skill, strategy: GraspStrategy
) -> None:
    dialogue = hold(
        scripted_planner,
        world(),
        task=TASK,
        skills=[skill],
        strategies=[strategy],
        history_turns=history_turns,
    )

    assert len(dialogue.decisions) < 100
    assert isinstance(dialogue.last, Finish)


def test_turns_that_are_no_longer_needed_may_be_forgotten(
    skill: Skill, strategy: GraspStrategy
) -> None:
    # Carrying needs the measurement, made nine turns before the last motion.
    dialogue = hold(
        scripted_planner,
        world(),
        task=TASK,
        skills=[skill],
        strategies=[strategy],
        history_turns=9,
    )

    assert won(dialogue)


def test_without_a_skill_it_says_so_and_touches_nothing(strategy: GraspStrategy) -> None:
    dialogue = hold(scripted_planner, world(), task=TASK, skills=[], strategies=[strategy])

    assert len(dialogue.decisions) == 1
    assert isinstance(dialogue.last, Talk)


def test_without_a_strategy_that_fits_it_says_so(skill: Skill) -> None:
    assert isinstance(plan(skill).last, Talk)


def test_a_step_whose_tool_is_not_offered_is_reported(
    skill: Skill, strategy: GraspStrategy
) -> None:
    offered = tuple(tool for tool in TOOLS if tool.name != "anygrasp")
    last = plan(skill, strategy, tools=offered).last

    assert isinstance(last, Talk)
    assert "anygrasp" in last.message


def test_a_tool_it_was_not_written_for_is_called_if_it_needs_nothing(
    skill: Skill, strategy: GraspStrategy
) -> None:
    content = skill.content.replace("1. `sam3` target", "0. `observe`: look\n1. `sam3` target")
    dialogue = plan(replace_content(skill, content), strategy)

    assert dialogue.batches[0] == ["observe", "sam3", "sam3"]
    assert won(dialogue)


def test_a_skill_that_was_cut_is_read_whole_first(skill: Skill, strategy: GraspStrategy) -> None:
    content = "Prose. " * (MAX_SKILL_CHARACTERS // 7 + 1) + "\n" + skill.content
    dialogue = plan(replace_content(skill, content), strategy)

    assert dialogue.batches[0] == ["read_skill"]
    assert won(dialogue)


def test_a_success_reported_by_the_environment_ends_the_episode_at_once(
    skill: Skill, strategy: GraspStrategy
) -> None:
    where = world()
    where.things["alphabet soup"].xyz_m = where.things["basket"].xyz_m

    assert plan(skill, strategy, where=where).decisions == (
        Finish(reasoning="The environment reports success."),
    )


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [ModelMessage(role="user", text="hello")],
        [ModelMessage(role="user", text='{"instruction": "x", "tool_context": {}}')],
        [
            ModelMessage(role="system", text="# Tools\nnot json"),
            ModelMessage(role="user", text="{"),
        ],
    ],
)
def test_words_that_are_no_planner_context_are_answered_with_talk(
    messages: Sequence[ModelMessage],
) -> None:
    assert isinstance(parse_command(scripted_planner(messages)), Talk)


def test_no_world_mutating_tool_is_ever_batched(skill: Skill, strategy: GraspStrategy) -> None:
    mutating = {tool.name for tool in TOOLS if tool.effect is ToolEffect.WORLD_MUTATING}

    for decision in plan(skill, strategy).decisions:
        if isinstance(decision, CallTools) and len(decision.calls) > 1:
            assert not mutating & {call.name for call in decision.calls}

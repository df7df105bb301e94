from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.embedded.models.planner.mark import Mark, read_mark
from openeta_exp.embedded.models.planner.skill_steps import Step, parse_steps
from openeta_exp.wire.planner_context import SKILL_CUT_NOTE

SKILL = """# A skill
1. `not_in` the: sequence
## Tool sequence
Some prose with 3. `code` in it.
1. `sam3` target: segment.
2) `move_to` Contact: go on
   over two lines, 7. `nothing` here.
3. `task_complete`: claim the end.

## Recovery
- Something else about step 3.
- If the contact pose was not reached and the host made another candidate
  active, go on with step 2.
"""


def test_steps_are_the_numbered_lines_of_the_sequence_alone() -> None:
    steps = parse_steps("s", SKILL)

    assert steps.steps == (
        Step(number=1, tool="sam3", role="target"),
        Step(number=2, tool="move_to", role="contact"),
        Step(number=3, tool="task_complete", role=""),
    )
    assert steps.after_miss == 1
    assert not steps.cut


@pytest.mark.parametrize(
    "recovery",
    ["", "## Recovery\n- if not reached, cry", "## Recovery\n- not reached: go on with step 9"],
)
def test_without_a_usable_rule_a_miss_changes_nothing(recovery: str) -> None:
    text = SKILL.split("## Recovery")[0] + recovery

    assert parse_steps("s", text).after_miss is None


def test_a_cut_skill_is_known_to_be_cut() -> None:
    assert parse_steps("s", f"# A skill\n{SKILL_CUT_NOTE}").cut


@given(st.text())
def test_any_text_is_a_skill_with_or_without_steps(text: str) -> None:
    steps = parse_steps("s", f"## Tool sequence\n{text}")

    assert all(step.tool for step in steps.steps)


@given(
    mark=st.builds(
        Mark,
        attempt=st.integers(1, 999),
        steps=st.lists(st.integers(0, 998)).map(tuple),
        next=st.integers(0, 998),
    ),
    words=st.text(),
)
def test_a_mark_comes_back_from_the_words_around_it(mark: Mark, words: str) -> None:
    assert read_mark(mark.write(words)) == mark


@given(st.text())
def test_reasoning_of_others_bears_no_mark(text: str) -> None:
    assert read_mark(f"I think {text}") is None

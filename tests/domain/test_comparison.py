from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from openeta_exp.domain.comparison import (
    PairedComparison,
    compare,
    incomparable_fields,
    pair,
    progress,
)
from openeta_exp.domain.pair import (
    ArmObservation,
    Cost,
    Fingerprint,
    PairKey,
    PairOutcome,
    PairStatus,
    Side,
    total_cost,
)
from openeta_exp.errors import ManifestError
from tests.statistics.paired_arms import (
    ENDINGS,
    at_reset,
    broke,
    in_order,
    key,
    lost,
    observed,
    story,
    with_candidate,
    won,
)

LETTERS = "".join(ENDINGS)


def test_an_infrastructure_failure_in_one_arm_is_excluded_and_is_no_regression() -> None:
    keys = [key(0), key(1)]

    comparison = compare(
        [won(each, side=Side.BASELINE) for each in keys],
        [won(keys[0]), broke(keys[1])],
        schedule=in_order(keys),
    )

    assert [each.key for each in comparison.excluded] == [keys[1]]
    assert comparison.regressed == ()
    assert comparison.tied_success == (keys[0],)


def test_every_pair_ends_in_exactly_one_way() -> None:
    comparison = story("wlbnCcBX")

    assert len(comparison.improved) == len(comparison.regressed) == 1
    assert len(comparison.tied_success) == len(comparison.tied_failure) == 1
    assert len(comparison.excluded) == 4
    assert comparison.differences == (1, -1, 0, 0)


def test_an_episode_that_broke_can_carry_no_success() -> None:
    with pytest.raises(ValidationError, match="broke has no success"):
        broke(key(0), objective_success=True)
    with pytest.raises(ValidationError, match="solved at reset has no success"):
        at_reset(key(0), objective_success=True)
    with pytest.raises(ValidationError, match="says what broke"):
        lost(key(0), failure_class="simulator_mcp_call_failed")


def test_runtime_success_is_not_objective_success() -> None:
    claimed = lost(key(0), status=PairStatus.SUCCESS)

    [paired] = pair([won(key(0), side=Side.BASELINE)], [claimed])

    assert paired.outcome is PairOutcome.REGRESSED


def test_arms_that_ran_different_keys_are_refused_with_every_difference() -> None:
    with pytest.raises(ManifestError) as caught:
        pair([won(key(0)), won(key(0)), won(key(1))], [won(key(0)), won(key(2))])

    assert len(caught.value.problems) == 3
    assert "baseline: ran more than once: ['table/task-0#0.0']" in caught.value.problems
    assert "baseline: the other arm did not run ['table/task-1#1.0']" in caught.value.problems
    assert "candidate: the other arm did not run ['table/task-2#2.0']" in caught.value.problems


def test_looks_use_the_longest_complete_prefix_and_show_what_ran_ahead() -> None:
    pairs = observed("wwlbn")
    schedule = in_order(each.key for each in pairs)

    seen = progress(schedule, [pairs[4], pairs[0], pairs[1], pairs[3]])

    assert seen.comparison.differences == (1, 1)
    assert {each.key for each in seen.comparison.overrun} == {pairs[3].key, pairs[4].key}
    assert [each.key for each in seen.missing] == [pairs[2].key]
    assert not seen.complete


@given(st.data(), st.text(LETTERS, max_size=12))
def test_the_order_of_completion_changes_nothing(data: st.DataObject, letters: str) -> None:
    pairs = observed(letters)
    schedule = in_order(each.key for each in pairs)

    shuffled = data.draw(st.permutations(pairs))

    assert progress(schedule, shuffled) == progress(schedule, pairs)


@pytest.mark.parametrize("lost_pair", ["C", "R"])
def test_a_pair_without_a_verdict_is_replaced_by_a_reserve_of_the_same_task(
    lost_pair: str,
) -> None:
    pairs = observed(f"{lost_pair}www", tasks=2)
    spare = observed("w", start=8, tasks=2)[0]
    other_task = observed("w", start=9, tasks=2)[0]
    schedule = in_order((each.key for each in pairs), reserves=(other_task.key, spare.key))

    before = progress(schedule, pairs)
    after = progress(schedule, [*pairs, spare])

    assert [each.key for each in before.missing] == [spare.key]
    assert before.comparison.pairs == ()
    assert after.complete
    assert [each.key for each in after.comparison.pairs] == [
        spare.key,
        *(each.key for each in pairs[1:]),
    ]
    assert [each.key for each in after.comparison.excluded] == [pairs[0].key]


def test_without_reserves_a_broken_pair_leaves_a_gap_and_the_comparison_goes_on() -> None:
    pairs = observed("wCw")

    seen = progress(in_order(each.key for each in pairs), pairs)

    assert seen.complete
    assert len(seen.comparison.pairs) == 2


def test_a_pair_that_was_not_scheduled_or_came_twice_is_refused() -> None:
    pairs = observed("ww")
    stranger = observed("w", start=7)[0]

    with pytest.raises(ManifestError) as caught:
        progress(in_order(each.key for each in pairs), [pairs[0], pairs[0], stranger])

    assert len(caught.value.problems) == 2


@given(st.text(LETTERS, max_size=20), st.integers(0, 20))
def test_cutting_a_comparison_loses_no_pair(letters: str, at: int) -> None:
    whole = story(letters)

    cut = whole.first(at)

    assert len(cut.pairs) == min(at, len(whole.pairs))
    assert [*cut.observations, *cut.overrun] == [*whole.observations, *whole.overrun]
    assert cut.first(at) == cut


@given(st.text(LETTERS, max_size=20))
def test_swapping_the_arms_swaps_improved_and_regressed(letters: str) -> None:
    mirrored = letters.translate(str.maketrans("wlCB", "lwBC"))

    ours, theirs = story(letters), story(mirrored)

    assert [each.seed for each in ours.improved] == [each.seed for each in theirs.regressed]
    assert ours.tied_success == theirs.tied_success


def test_both_arms_pay_for_everything_that_ran() -> None:
    comparison = story("wwX").first(1)

    assert comparison.spent(Side.BASELINE).tokens == 3000
    assert comparison.spent(Side.CANDIDATE).tool_calls == 30


def test_an_unknown_price_stays_unknown() -> None:
    assert total_cost([Cost(price_usd=1.0), Cost(price_usd=0.5)]).price_usd == 1.5
    assert total_cost([Cost(price_usd=1.0), Cost()]).price_usd is None
    assert total_cost([]).price_usd is None


def test_arms_whose_pins_differ_are_incomparable_by_name() -> None:
    pairs = list(observed("ww"))
    moved = Fingerprint(tree="tree-1", pins={"model": "m-2", "simulator": "s-1"})
    pairs[1] = with_candidate(pairs[1], fingerprint=moved)

    comparison = progress(in_order(each.key for each in pairs), pairs).comparison

    assert incomparable_fields(comparison) == ("model",)


def test_a_pin_that_only_one_arm_names_is_incomparable() -> None:
    pairs = list(observed("w"))
    pairs[0] = with_candidate(pairs[0], fingerprint=Fingerprint(tree="tree-1", pins={}))

    comparison = progress(in_order(each.key for each in pairs), pairs).comparison

    assert incomparable_fields(comparison) == ("model", "simulator")


def test_a_tree_that_changes_under_way_is_incomparable() -> None:
    pairs = list(observed("ww"))
    changed = pairs[1].candidate.fingerprint.model_copy(update={"tree": "tree-2"})
    pairs[1] = with_candidate(pairs[1], fingerprint=changed)

    comparison = progress(in_order(each.key for each in pairs), pairs).comparison

    assert incomparable_fields(comparison) == ("candidate_tree",)


def test_a_comparison_survives_a_round_trip_through_json() -> None:
    comparison = story("wlbnCX").first(3)

    assert PairedComparison.from_json(comparison.to_json()) == comparison
    assert ArmObservation.from_json(won(key(0)).to_json()) == won(key(0))
    assert PairKey.from_json(key(3).to_json()) == key(3)

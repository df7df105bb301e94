from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openeta_exp.wire.model_faults import FaultKind, parse_faults


def kinds(line: str, requests: int) -> list[FaultKind | None]:
    plan = parse_faults(line)
    return [plan.fault(number) for number in range(1, requests + 1)]


def test_a_bare_kind_hits_every_request() -> None:
    assert kinds("stall", 3) == [FaultKind.STALL] * 3


def test_a_kind_may_hit_one_request_a_range_or_every_nth() -> None:
    assert kinds("empty@2", 3) == [None, FaultKind.EMPTY, None]
    assert kinds("empty@2-3", 4) == [None, FaultKind.EMPTY, FaultKind.EMPTY, None]
    assert kinds("empty/2", 4) == [None, FaultKind.EMPTY, None, FaultKind.EMPTY]


def test_the_first_rule_that_applies_wins() -> None:
    assert kinds("drop@1, stall", 2) == [FaultKind.DROP, FaultKind.STALL]


def test_percentages_are_drawn_by_seed_and_request_number() -> None:
    drawn = kinds("server_error%25,seed=3", 400)

    assert drawn == kinds("server_error%25,seed=3", 400)
    assert drawn != kinds("server_error%25,seed=4", 400)
    assert 60 < sum(kind is not None for kind in drawn) < 140


def test_delays_and_retry_after_are_read() -> None:
    plan = parse_faults("latency=0.25,rate_limit@1,retry_after=2")

    assert plan.latency_s == 0.25
    assert plan.retry_after == "2"


@pytest.mark.parametrize(
    "line",
    ["nonsense", "stall@", "stall@x", "latency=-1", "latency=nan", "seed=1.5", "what=1", "stall%"],
)
def test_an_item_that_cannot_be_read_is_named(line: str) -> None:
    with pytest.raises(ValueError, match=line.split("=")[0].split("@")[0].split("%")[0]):
        parse_faults(line)


@given(st.text(max_size=40))
def test_any_line_is_a_plan_or_a_value_error(line: str) -> None:
    with suppress(ValueError):
        plan = parse_faults(line)
        plan.fault(1)
        assert plan.latency_s >= 0

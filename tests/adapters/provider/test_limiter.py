"""The limiter alone, on a clock that only moves when told."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openeta_exp.adapters.provider.limiter import ProviderLimiter
from openeta_exp.errors import ProviderQueueTimeout
from tests.manual_clock import ManualClock, settle

pytestmark = pytest.mark.anyio


class Bench:
    """Calls that hold a slot for a time, and a record of who got one when."""

    def __init__(self, limit: int, *, queue_timeout_s: float = 180.0) -> None:
        self.clock = ManualClock()
        self.limiter = ProviderLimiter(limit, queue_timeout_s=queue_timeout_s, clock=self.clock)
        self.started: list[str] = []
        self.waited_s: dict[str, float] = {}
        self.expired: list[str] = []

    async def call(self, name: str, *, holds_s: float = 10.0) -> None:
        try:
            async with self.limiter.slot() as waited_s:
                await self.limiter.unpaused()
                self.started.append(name)
                self.waited_s[name] = waited_s
                await self.clock.sleep(holds_s)
        except ProviderQueueTimeout:
            self.expired.append(name)


async def test_slots_are_given_in_the_order_of_asking() -> None:
    bench = Bench(2)
    async with anyio.create_task_group() as group:
        for name in "abcd":
            group.start_soon(bench.call, name)
        await bench.clock.advance(0)
        assert bench.started == ["a", "b"]
        await bench.clock.advance(10)
        assert bench.started == ["a", "b", "c", "d"]
        await bench.clock.advance(10)

    assert bench.waited_s == {"a": 0.0, "b": 0.0, "c": 10.0, "d": 10.0}
    metrics = bench.limiter.metrics()
    assert (metrics.active, metrics.max_active, metrics.request_count) == (0, 2, 4)
    assert (metrics.total_queue_wait_s, metrics.max_queue_wait_s) == (20.0, 10.0)


async def test_nobody_overtakes_the_queue_when_a_slot_comes_free() -> None:
    bench = Bench(1)
    async with anyio.create_task_group() as group:
        group.start_soon(bench.call, "first")
        group.start_soon(bench.call, "waiting")
        await bench.clock.advance(10)
        group.start_soon(bench.call, "late")
        await bench.clock.advance(20)

    assert bench.started == ["first", "waiting", "late"]


async def test_whoever_waits_too_long_is_turned_away_before_anything_is_sent() -> None:
    bench = Bench(1, queue_timeout_s=180.0)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: bench.call("long", holds_s=500.0))
        group.start_soon(bench.call, "waiting")
        await bench.clock.advance(179.9)
        assert bench.expired == []
        await bench.clock.advance(0.1)
        assert bench.expired == ["waiting"]
        await bench.clock.advance(500)

    metrics = bench.limiter.metrics()
    assert metrics.queue_timeout_count == 1
    assert metrics.request_count == 2
    assert metrics.total_queue_wait_s == pytest.approx(180.0)
    assert bench.started == ["long"]


async def test_the_queue_clock_stands_still_during_a_pause() -> None:
    bench = Bench(1, queue_timeout_s=20.0)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: bench.call("busy", holds_s=118.0))
        group.start_soon(bench.call, "waiting")
        await bench.clock.advance(5)
        bench.limiter.pause(100.0)
        await bench.clock.advance(112.9)
        assert bench.expired == []
        await bench.clock.advance(20)

    # 118 seconds in the queue, of which 100 were the provider's pause.
    assert bench.started == ["busy", "waiting"]
    assert bench.waited_s["waiting"] == pytest.approx(118.0)


async def test_the_queue_clock_goes_on_after_a_pause() -> None:
    bench = Bench(1, queue_timeout_s=20.0)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: bench.call("busy", holds_s=500.0))
        group.start_soon(bench.call, "waiting")
        await bench.clock.advance(5)
        bench.limiter.pause(100.0)
        await bench.clock.advance(114.9)
        assert bench.expired == []
        await bench.clock.advance(0.2)
        assert bench.expired == ["waiting"]
        await bench.clock.advance(500)


async def test_a_pause_holds_everybody_until_its_end() -> None:
    bench = Bench(4)
    bench.limiter.pause(30.0)
    async with anyio.create_task_group() as group:
        group.start_soon(bench.call, "a")
        group.start_soon(bench.call, "b")
        await bench.clock.advance(29.9)
        assert bench.started == []
        await bench.clock.advance(0.1)
        assert sorted(bench.started) == ["a", "b"]
        await bench.clock.advance(10)


async def test_pauses_that_overlap_are_one_pause_with_the_later_end() -> None:
    bench = Bench(2)
    bench.limiter.pause(30.0)
    bench.limiter.pause(10.0)
    async with anyio.create_task_group() as group:
        group.start_soon(bench.call, "a")
        await bench.clock.advance(20)
        bench.limiter.pause(30.0)
        await bench.clock.advance(29.9)
        assert bench.started == []
        await bench.clock.advance(20)

    assert bench.limiter.metrics().paused_count == 1
    bench.limiter.pause(1.0)
    assert bench.limiter.metrics().paused_count == 2


async def test_cancelling_a_call_gives_its_slot_to_the_next_at_once() -> None:
    bench = Bench(1)
    async with anyio.create_task_group() as group:
        with anyio.CancelScope() as scope:
            group.start_soon(bench.call, "waiting")
            async with bench.limiter.slot():
                await settle()
                assert bench.started == []
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        await settle()
        assert bench.started == ["waiting"]
        await bench.clock.advance(10)


async def test_cancelling_a_call_in_the_queue_leaves_the_queue_in_order() -> None:
    bench = Bench(1)
    scope = anyio.CancelScope()

    async def impatient() -> None:
        with scope:
            await bench.call("impatient")

    async with anyio.create_task_group() as group:
        group.start_soon(bench.call, "first")
        group.start_soon(impatient)
        group.start_soon(bench.call, "last")
        await bench.clock.advance(1)
        scope.cancel()
        await bench.clock.advance(30)

    assert bench.started == ["first", "last"]
    assert bench.limiter.metrics().active == 0


async def test_a_call_cancelled_just_as_its_slot_comes_gives_it_on() -> None:
    bench = Bench(1)
    scope = anyio.CancelScope()

    async def impatient() -> None:
        with scope:
            await bench.call("impatient")

    async with anyio.create_task_group() as group:
        async with bench.limiter.slot():
            group.start_soon(impatient)
            group.start_soon(bench.call, "last")
            await settle()
        # The slot was handed over a moment ago; the receiver has not run yet.
        scope.cancel()
        await bench.clock.advance(10)

    assert bench.started == ["last"]
    assert bench.limiter.metrics().active == 0


@pytest.mark.parametrize(("limit", "queue_timeout_s"), [(0, 1.0), (1, 0.0), (1, float("nan"))])
def test_a_limiter_that_could_never_work_is_refused(limit: int, queue_timeout_s: float) -> None:
    with pytest.raises(ValueError, match="at least one slot"):
        ProviderLimiter(limit, queue_timeout_s=queue_timeout_s, clock=ManualClock())


@settings(max_examples=40)
@given(
    limit=st.integers(1, 3),
    calls=st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 9), st.booleans()), min_size=1, max_size=12
    ),
    pauses=st.lists(st.tuples(st.integers(0, 12), st.integers(1, 9)), max_size=3),
)
def test_whatever_happens_slots_are_neither_lost_nor_doubled(
    *, limit: int, calls: list[tuple[int, int, bool]], pauses: list[tuple[int, int]]
) -> None:
    async def scenario() -> None:
        bench = Bench(limit, queue_timeout_s=7.0)
        scopes = [anyio.CancelScope() for _ in calls]

        async def one(at: int) -> None:
            with scopes[at]:
                await bench.call(str(at), holds_s=float(calls[at][1]))

        async with anyio.create_task_group() as group:
            for second in range(20):
                for at, (start, _, _) in enumerate(calls):
                    if start == second:
                        group.start_soon(one, at)
                for start, length in pauses:
                    if start == second:
                        bench.limiter.pause(float(length))
                for at, (start, _, impatient) in enumerate(calls):
                    if impatient and start + 3 == second:
                        scopes[at].cancel()
                await bench.clock.advance(1)
                assert bench.limiter.metrics().active <= limit
            await bench.clock.advance(500)
        metrics = bench.limiter.metrics()
        assert metrics.active == 0
        assert metrics.max_active <= limit
        assert metrics.request_count == len(calls)
        assert metrics.queue_timeout_count == len(bench.expired)
        async with bench.limiter.slot() as waited_s:
            assert waited_s == 0.0

    anyio.run(scenario)

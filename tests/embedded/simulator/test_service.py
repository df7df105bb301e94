"""Sessions, lifetimes and misfortunes of environments, on real processes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import psutil
import pytest

from openeta_exp.embedded.simulator.arguments import (
    CloseEnv,
    CreateEnv,
    ListActiveEnvs,
    ListEnvs,
    MoveTo,
    ObserveEnv,
    ResetEnv,
    SearchEnvs,
)
from openeta_exp.embedded.simulator.gl import Gl
from openeta_exp.embedded.simulator.pool import PoolExhausted
from openeta_exp.embedded.simulator.replies import CreateReply, Observation
from openeta_exp.embedded.simulator.service import (
    SimulatorOptions,
    SimulatorService,
    ToolRefusal,
)
from openeta_exp.embedded.simulator.worker_process import WorkerHung, WorkerLost
from openeta_exp.errors import SimulatorError

pytestmark = pytest.mark.anyio

CAN = "openeta/tabletop_pick_can_basket-v0"
BOX = "openeta/tabletop_pick_box_basket-v0"
FAR = {"x": 0.1, "y": 0.2, "z": 0.2}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """Of the module, so that its tests can share one service."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[SimulatorService]:
    """One process at a time, no GL: these tests are about lifetimes."""
    options = SimulatorOptions(
        max_envs=1,
        gl_candidates=(),
        call_timeout_s=60.0,
        capacity_timeout_s=60.0,
        close_grace_s=0.2,
    )
    async with SimulatorService.running(options) as running:
        yield running


@pytest.fixture
async def service(shared: SimulatorService) -> AsyncIterator[SimulatorService]:
    """The shared service, with nothing left open by the test."""
    yield shared
    for env in (await shared.list_active_envs(ListActiveEnvs())).envs:
        await shared.close_env(CloseEnv(handle=env.handle))


@pytest.fixture
def others() -> frozenset[int]:
    """Processes that were there before the test began."""
    return frozenset(child.pid for child in psutil.Process().children())


def workers(others: frozenset[int] = frozenset()) -> list[psutil.Process]:
    """Environment processes of this test process, except `others`."""
    return [
        child
        for child in psutil.Process().children()
        if child.pid not in others and "openeta_exp.embedded.simulator.worker" in child.cmdline()
    ]


async def create(service: SimulatorService, env_id: str = CAN, *, seed: int = 0) -> CreateReply:
    return await service.create_env(CreateEnv(env_id=env_id, cameras=(), seed=seed))


async def start(service: SimulatorService, env_id: str = CAN, *, seed: int = 0) -> CreateReply:
    created = await create(service, env_id, seed=seed)
    await service.reset_env(ResetEnv(handle=created.handle))
    return created


async def state(service: SimulatorService, handle: str) -> str:
    text = await service.observe_env(ObserveEnv(handle=handle))
    return Observation.from_json(text).metadata.state_digest


async def test_a_handle_is_enough_and_a_wrong_session_is_refused(
    service: SimulatorService,
) -> None:
    mine = await start(service)

    assert await state(service, mine.handle)
    with pytest.raises(ToolRefusal, match="Unknown") as refusal:
        await service.observe_env(ObserveEnv(handle=mine.handle, session_id="another"))
    assert refusal.value.code == "unknown_handle"
    listed = await service.list_active_envs(ListActiveEnvs(session_id=mine.session_id))
    assert [env.handle for env in listed.envs] == [mine.handle]
    assert (await service.list_active_envs(ListActiveEnvs(session_id="another"))).count == 0


async def test_an_environment_is_closed_once_and_closing_again_is_no_error(
    service: SimulatorService,
) -> None:
    mine = await start(service)

    wrong = await service.close_env(CloseEnv(handle=mine.handle, session_id="another"))
    first = await service.close_env(CloseEnv(handle=mine.handle))
    again = await service.close_env(CloseEnv(handle=mine.handle))

    assert (wrong.already_closed, first.already_closed, again.already_closed) == (
        True,
        False,
        True,
    )
    assert service.counts().idle == 1
    assert service.counts().busy == 0


async def test_observing_before_the_first_reset_is_refused(service: SimulatorService) -> None:
    created = await create(service)

    with pytest.raises(ToolRefusal, match="reset_env first"):
        await service.observe_env(ObserveEnv(handle=created.handle))


@pytest.mark.parametrize(
    ("env_id", "reason"),
    [
        ("openeta/metaworld_reach-v0", "is not openeta/libero_"),
        ("openeta/tabletop_fly-v0", "no tabletop task 'fly'"),
        (
            "openeta/libero_libero_object_task00-v0",
            "no environment; did you mean openeta/libero_libero_object_task0-v0",
        ),
        ("openeta/libero_libero_object_task99-v0", "no files for task 99|not installed"),
    ],
)
async def test_an_unknown_environment_is_refused_and_leaves_the_capacity_free(
    service: SimulatorService, env_id: str, reason: str
) -> None:
    with pytest.raises(ToolRefusal, match=reason):
        await service.create_env(CreateEnv(env_id=env_id, cameras=()))

    assert await start(service)


async def test_a_camera_is_refused_where_no_gl_works(service: SimulatorService) -> None:
    assert service.gl is Gl.NONE
    with pytest.raises(ToolRefusal, match=r"cameras=\[\]") as refusal:
        await service.create_env(CreateEnv(env_id=CAN))
    assert refusal.value.code == "no_gl"


async def test_a_create_waits_for_a_close_when_the_pool_is_full(
    service: SimulatorService,
) -> None:
    first = await start(service)
    order: list[str] = []

    async def second() -> None:
        await start(service)
        order.append("second ready")

    async with anyio.create_task_group() as group:
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        order.append("first closed")
        await service.close_env(CloseEnv(handle=first.handle))

    assert order == ["first closed", "second ready"]


async def test_a_create_that_waits_too_long_names_the_capacity() -> None:
    options = SimulatorOptions(max_envs=1, gl_candidates=(), capacity_timeout_s=0.05)
    async with SimulatorService.running(options) as service:
        await start(service)
        with pytest.raises(PoolExhausted, match="of 1 environment none is free"):
            await start(service)


async def test_a_closed_environments_process_serves_the_next_task_of_its_scene(
    service: SimulatorService,
) -> None:
    first = await start(service, CAN, seed=3)
    before = await state(service, first.handle)
    (process,) = workers()
    await service.close_env(CloseEnv(handle=first.handle))

    other = await start(service, BOX, seed=3)
    await service.move_to(MoveTo(handle=other.handle, **FAR))
    await service.close_env(CloseEnv(handle=other.handle))
    again = await start(service, CAN, seed=3)

    assert [worker.pid for worker in workers()] == [process.pid]
    assert again.reused_process
    assert await state(service, again.handle) == before


async def test_equal_seeds_give_equal_states_side_by_side_and_other_seeds_do_not() -> None:
    options = SimulatorOptions(max_envs=3, gl_candidates=())
    digests: dict[str, str] = {}

    async def play(running: SimulatorService, name: str, seed: int) -> None:
        handle = (await start(running, seed=seed)).handle
        await running.move_to(MoveTo(handle=handle, **FAR))
        digests[name] = await state(running, handle)
        await running.close_env(CloseEnv(handle=handle))

    async with SimulatorService.running(options) as running:
        async with anyio.create_task_group() as group:
            for name, seed in (("a", 5), ("b", 5), ("c", 6)):
                group.start_soon(play, running, name, seed)
        await play(running, "later, in a used process", 5)

    assert digests["a"] == digests["b"] == digests["later, in a used process"]
    assert digests["a"] != digests["c"]


async def test_a_process_that_dies_costs_its_environment_and_is_replaced(
    service: SimulatorService,
) -> None:
    mine = await start(service)
    (process,) = workers()
    process.kill()
    process.wait()

    with pytest.raises(WorkerLost):
        await service.move_to(MoveTo(handle=mine.handle, **FAR))
    assert not (await service.close_env(CloseEnv(handle=mine.handle))).already_closed
    assert await start(service)


async def test_a_process_that_hangs_is_ended_and_named(others: frozenset[int]) -> None:
    options = SimulatorOptions(max_envs=1, gl_candidates=(), call_timeout_s=0.5)
    async with SimulatorService.running(options) as service:
        mine = await create(service)
        (process,) = workers(others)
        process.suspend()

        with pytest.raises(WorkerHung, match="no answer to 'reset'") as hung:
            await service.reset_env(ResetEnv(handle=mine.handle))

        assert hung.value.code == "simulator_worker_hung"
        assert hung.value.outcome_unknown
        assert not process.is_running()
        await service.close_env(CloseEnv(handle=mine.handle))
        assert await create(service)


async def test_a_process_that_dies_during_a_call_says_so(service: SimulatorService) -> None:
    mine = await start(service)
    (process,) = workers()
    process.suspend()
    failures: list[SimulatorError] = []

    async def move() -> None:
        try:
            await service.move_to(MoveTo(handle=mine.handle, **FAR))
        except SimulatorError as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(move)
        await anyio.wait_all_tasks_blocked()
        process.kill()

    (failure,) = failures
    assert failure.code == "simulator_worker_lost"
    assert "died during 'move'" in str(failure)
    assert failure.outcome_unknown


async def test_closing_does_not_wait_for_a_call_that_never_ends(
    service: SimulatorService,
) -> None:
    mine = await start(service)
    (process,) = workers()
    process.suspend()
    failures: list[SimulatorError] = []

    async def move() -> None:
        try:
            await service.move_to(MoveTo(handle=mine.handle, **FAR))
        except SimulatorError as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(move)
        await anyio.wait_all_tasks_blocked()
        closed = await service.close_env(CloseEnv(handle=mine.handle))

    assert closed.cleanup_errors == ("a call was still running; its process was ended",)
    assert [failure.code for failure in failures] == ["env_closed"]
    assert workers() == []


async def test_a_cancelled_call_does_not_answer_a_later_one(service: SimulatorService) -> None:
    mine = await start(service)
    (process,) = workers()
    process.suspend()
    async with anyio.create_task_group() as group:
        group.start_soon(service.move_to, MoveTo(handle=mine.handle, **FAR))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
        process.resume()

    text = await service.observe_env(ObserveEnv(handle=mine.handle))

    # An observation, not the motion's reply, and the motion did run.
    assert Observation.from_json(text).metadata.sim_step > 0


async def test_a_create_that_was_cancelled_keeps_no_environment(
    service: SimulatorService,
) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(create, service)
        while service.counts().busy == 0:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert service.counts().busy == 0
    assert (await service.list_active_envs(ListActiveEnvs())).count == 0


async def test_an_unused_environment_is_closed_after_its_time() -> None:
    options = SimulatorOptions(max_envs=1, gl_candidates=(), idle_ttl_s=0.05)
    async with SimulatorService.running(options) as service:
        await create(service)
        # Only the sweeper can make room for this one.
        assert await create(service)


async def test_leaving_the_service_leaves_no_process(others: frozenset[int]) -> None:
    options = SimulatorOptions(max_envs=2, gl_candidates=())
    async with SimulatorService.running(options) as service:
        await start(service)
        idle = await start(service)
        await service.close_env(CloseEnv(handle=idle.handle))
        assert len(workers(others)) == 2

    assert workers(others) == []


async def test_environments_are_listed_and_found_by_words(service: SimulatorService) -> None:
    listed = await service.list_envs(ListEnvs(env_type="tabletop"))
    found = await service.search_envs(SearchEnvs(query="tabletop cup shelf"))

    assert CAN in [env.id for env in listed.envs]
    assert listed.count == len(listed.envs)
    assert [env.id for env in found.results] == ["openeta/tabletop_cup_on_shelf-v0"]

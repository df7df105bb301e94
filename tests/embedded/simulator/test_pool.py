"""Which process an environment gets. Processes are real; nothing is built in them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from openeta_exp.embedded.simulator.env_ids import EnvId, LiberoId, TabletopId, parse_env_id
from openeta_exp.embedded.simulator.gl import Gl
from openeta_exp.embedded.simulator.pool import WorkerPool
from openeta_exp.embedded.simulator.worker_process import WorkerProcess

pytestmark = pytest.mark.anyio

SOUP, MILK = LiberoId("libero_object", 0), LiberoId("libero_object", 7)
CAN, CUP = TabletopId("pick_can_basket"), TabletopId("cup_on_shelf")


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(2, Gl.NONE)
    yield pool
    await pool.close()


async def taken(pool: WorkerPool, env_id: EnvId) -> WorkerProcess:
    worker = await pool.take(env_id, timeout_s=60)
    worker.affinity = env_id.affinity
    return worker


async def test_a_warm_process_is_preferred_then_a_new_one_then_one_of_the_same_simulator(
    pool: WorkerPool,
) -> None:
    soup, can = await taken(pool, SOUP), await taken(pool, CAN)
    await pool.give_back(can)
    await pool.give_back(soup)

    warm = await taken(pool, SOUP)
    assert warm is soup
    await pool.give_back(warm)
    kin = await taken(pool, MILK)
    assert kin is soup
    shared = await taken(pool, CUP)
    assert shared is can

    counts = pool.counts()
    assert (counts.started, counts.reused, counts.rebuilt, counts.replaced) == (2, 2, 1, 0)


async def test_a_process_of_another_simulator_makes_room_only_when_the_pool_is_full(
    pool: WorkerPool,
) -> None:
    first = await taken(pool, CAN)
    second = await taken(pool, CAN)
    await pool.give_back(first)
    await pool.give_back(second)

    soup = await taken(pool, SOUP)

    assert soup not in (first, second)
    assert not first.alive
    assert second.alive
    assert pool.counts().replaced == 1


async def test_a_dead_process_is_not_handed_out(pool: WorkerPool) -> None:
    first = await taken(pool, CAN)
    await pool.give_back(first)
    await first.end()

    second = await taken(pool, CAN)

    assert second is not first
    assert second.alive


@pytest.mark.parametrize("env_id", [SOUP, CAN, LiberoId("libero_object_task", 3)])
def test_an_env_id_is_read_back_from_its_text(env_id: EnvId) -> None:
    assert parse_env_id(str(env_id)) == env_id


@pytest.mark.parametrize("text", ["", "openeta/", "openeta/tabletop_-v0", "libero_object_task0"])
def test_other_texts_are_no_env_ids(text: str) -> None:
    with pytest.raises(ValueError, match="is not openeta/"):
        parse_env_id(text)


@pytest.mark.parametrize("number", ["00", "007", "\N{ARABIC-INDIC DIGIT SEVEN}"])
def test_an_env_id_has_no_second_spelling(number: str) -> None:
    with pytest.raises(ValueError, match=r"is no environment|is not openeta/"):
        parse_env_id(f"openeta/libero_libero_object_task{number}-v0")

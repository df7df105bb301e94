"""What an episode saw goes with it: a long batch needs no more memory than a short one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from openeta_exp.adapters.sandbox.monty import MontySandbox
from openeta_exp.adapters.supervision.model_skill_author import ModelSkillAuthor
from openeta_exp.domain.decision import Finish
from openeta_exp.domain.identity import EpisodeId
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.embedded.models.registry import MODELS
from openeta_exp.engine.episode import AgentTools, EpisodeWorld, run_episode
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.engine.skill_changes import SkillChanges
from openeta_exp.errors import ProviderError
from tests.speaking import SpeakingProvider
from tests.worlds import MOVE, OBSERVE, Answer, Saying, Scenes, broken, calls, prepared, world

pytestmark = pytest.mark.anyio

SPEC = EpisodeSpec(episode_id=EpisodeId("one"), env_id="memory", task="pick up the can")


@pytest.fixture
def no_cycle_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def hosts() -> int:
    """Episodes whose state, with every frame in it, is still alive."""
    return sum(isinstance(each, EpisodeHost) for each in gc.get_objects())


def furnished(base: EpisodeWorld) -> EpisodeWorld:
    """With everything an agent can be given."""
    author = ModelSkillAuthor(SpeakingProvider(MODELS["scripted-skill-author"]))
    changes = SkillChanges(author=author, judge=None)
    return replace(base, agent_tools=AgentTools(skill_changes=changes, sandbox=MontySandbox()))


@pytest.mark.parametrize(
    ("answers", "breaks"),
    [
        ((calls(OBSERVE), calls(MOVE)), ()),
        ((Finish(),), ()),
        ((None,), ()),
        ((ProviderError("gone"),), ()),
        ((calls(MOVE),), ("reset",)),
        ((calls(MOVE),), ("move_to",)),
        ((calls(MOVE),), ("close",)),
    ],
    ids=["solved", "finished", "nonsense", "no model", "reset breaks", "motion", "close"],
)
async def test_a_finished_episode_is_freed_at_once(
    answers: tuple[Answer, ...], breaks: tuple[str, ...], no_cycle_collector: None
) -> None:
    scenes = Scenes(prepared(before=broken(*breaks)))
    there = furnished(world(Saying(*answers), scenes=scenes))

    for _ in range(3):
        await run_episode(SPEC, world=there)

    assert hosts() == 0

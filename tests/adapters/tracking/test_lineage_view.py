"""What a lineage's run says of its authors."""

from __future__ import annotations

import pytest

from openeta_exp.adapters.tracking.lineage_view import run_points
from openeta_exp.adapters.tracking.version_view import origin_of
from openeta_exp.domain.lineage_story import Lineages
from openeta_exp.engine.author import Allowance
from openeta_exp.reporting.lineage_view import event_line
from tests.authoring import MortalJournal, engine_with, gepa, longer, proposals
from tests.generations import plan
from tests.speaking import SpeakingProvider

pytestmark = pytest.mark.anyio


async def test_episodes_tokens_and_money_of_an_author_are_metrics_of_its_lineage() -> None:
    journal = MortalJournal()
    author = gepa(SpeakingProvider(longer), episodes=12)
    of = plan(generations=1, train=12)
    await engine_with(author, journal, of=of, allowance=Allowance(episodes=40)).run()
    lineages = Lineages()
    for event in journal.facts:
        lineages.add(event)
    [story] = lineages.stories
    [proposal] = proposals(journal.facts)

    points = {each.key: each.value for each in run_points(story, tokens=0, at_ms=0)}

    effort = proposal.effort
    assert points["author/grasp_strategy/episodes"] == effort.episodes > 0
    assert points["author/grasp_strategy/tokens"] == effort.tokens.total_tokens
    assert points["author/grasp_strategy/usd"] == effort.usd
    assert "author/skill/tokens" not in points, "no author was asked"
    assert proposal.candidate is not None
    message, _ = origin_of(story, proposal.candidate.artifact)
    assert message.endswith(f"it took {effort}")
    lines = [event_line(event) for event in journal.facts]
    assert any(line is not None and line.endswith(f"it took {effort}") for line in lines)

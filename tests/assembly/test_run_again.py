"""`command=run` again, where nothing is left to run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openeta_exp.adapters.clock import SystemClock
from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.paused_episodes import FolderPausedEpisodes
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.assembly import execute
from openeta_exp.assembly.provenance import behaviour
from openeta_exp.assembly.world import baseline_tree, is_scripted
from openeta_exp.composition import compose_settings
from openeta_exp.domain.event import Arm
from openeta_exp.engine.resume import Reply, claim
from openeta_exp.settings.experiment import ExperimentSettings
from tests.batches import ended, started, won
from tests.pauses import paused, waiting

ROWS = [
    {"episode_id": name, "env_id": "openeta/tabletop_pick_can_basket-v0", "task": task}
    for name, task in (("vague", "tidy up the table"), ("can", "pick up the can"))
]


def settings_of(root: Path) -> ExperimentSettings:
    path = root / "episodes.json"
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    return compose_settings([f"output_root={root}", f"manifest.path={path}", "tracking=none"])


def ask_in_the_first_of_two(settings: ExperimentSettings) -> FolderPausedEpisodes:
    """The journal and the question of a batch that ended, one of its episodes waiting."""
    layout = ExperimentLayout.below(settings.output_root.absolute(), settings.experiment_id)
    arm = Arm(
        label="train",
        tree_digest=baseline_tree(settings).content_digest,
        settings=behaviour(settings),
        scripted=is_scripted(settings),
    )
    batch = started(settings.read_manifest(), of=arm)
    vague, can = batch.manifest.episodes
    asks = waiting(vague).model_copy(update={"arm_digest": arm.content_digest})
    journal = SqliteJournal(layout.journal)
    for event in (batch, ended(asks), ended(won(can, under=arm))):
        journal.append(event)
    journal.close()
    records = FolderPausedEpisodes(layout.interactions)
    records.keep(paused().model_copy(update={"arm": arm, "spec": vague, "outcome": asks}))
    return records


def test_an_episode_that_waits_is_not_said_to_have_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_of(tmp_path)
    ask_in_the_first_of_two(settings)

    assert execute(settings) == 0

    shown = capsys.readouterr()
    assert "episodes that wait for a person: 1 of 2; `command=pending` shows" in shown.err
    assert "verdict from before" not in shown.err
    assert "waiting for a person: 1 episode; `command=pending` shows" in shown.out.replace(
        "\n", " "
    )


def test_an_answered_episode_that_has_not_ended_is_named_with_the_command_that_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_of(tmp_path)
    records = ask_in_the_first_of_two(settings)
    (question,) = records.pending()
    session = question.outcome.session_id
    claim(
        Reply(
            session_id=session,
            interaction_id=question.interaction.interaction_id,
            answer="the can",
        ),
        records,
        SystemClock(),
    )

    assert execute(settings) == 0

    assert f"`command=resume session_id={session}` goes on with it" in capsys.readouterr().err

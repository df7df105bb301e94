"""A comparison that has begun is judged as it was planned, whatever is seen on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.layout import ExperimentLayout
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.assembly import catalog_compare
from openeta_exp.domain.event import ComparisonEnded
from openeta_exp.domain.policy_comparison import Standing
from openeta_exp.errors import SettingsError
from tests.catalog_cli.comparing import STRONG, WEAK, Compared, compare, toy_catalog

_PART = "catalog.tier=regression"
_THIRD = ("policy@third=tests.catalog.toy_policies:Homing", "third.params={gain: 4.0}")


def refusal(folder: Path, *overrides: str, catalog: Path | None = None) -> str:
    """What the command says instead of running; the result of before stays as it is."""
    (written,) = folder.glob("outputs/experiments/*/comparison/comparison.json")
    before = written.read_bytes()
    with pytest.raises(ExceptionGroup) as caught:
        compare(folder, *overrides, catalog=catalog)
    (refused,) = caught.value.exceptions
    assert isinstance(refused, SettingsError)
    assert written.read_bytes() == before
    return str(refused)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("gate.alpha=0.2", "gate.alpha: 0.01 became 0.2"),
        ("gate.midp=true", "gate.midp: False became True"),
        ("gate.guardrails.task_harm_alpha=0.01", "gate.guardrails.task_harm_alpha: 0.05 became"),
        ("equivalence_margin=0.3", "equivalence_margin: 0.1 became 0.3"),
        ("equivalence_margin=null", "equivalence_margin: 0.1 became None"),
        ("stop_early=true", "stop_early: False became True"),
    ],
)
def test_the_rule_cannot_be_chosen_after_the_outcomes(
    begun: Path, changed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(catalog_compare, "open_catalog")  # No simulator is started.

    told = refusal(begun, *WEAK, *STRONG, "gate=fixed", "gate.alpha=0.01", changed)

    assert said in told
    assert "use another experiment_id, or go back to them" in told


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison by a fixed gate."""
    folder = tmp_path_factory.mktemp("begun")
    toy_catalog(folder)
    compare(folder, *WEAK, *STRONG, "gate=fixed", "gate.alpha=0.01")
    return folder


def test_the_same_command_again_is_no_change(begun: Path) -> None:
    again = compare(begun, *WEAK, *STRONG, "gate=fixed", "gate.alpha=0.01")

    assert again.result.warnings == ()
    assert again.episodes == {"weak": 24, "strong": 24}


def test_a_part_of_a_comparison_does_not_take_the_place_of_the_whole(begun: Path) -> None:
    told = refusal(begun, *WEAK, *STRONG, "gate=fixed", "gate.alpha=0.01", _PART)

    assert "has begun to compare policies on 15 episodes that are left out" in told


def test_a_scene_that_changed_is_named_instead_of_episodes_that_are_left_out(
    begun: Path, tmp_path: Path
) -> None:
    other = toy_catalog(tmp_path, params={"bar": 2.0})
    rules = ("gate=fixed", "gate.alpha=0.01")

    told = refusal(begun, *WEAK, *STRONG, *rules, catalog=other)

    assert "on 24 episodes that have changed since" in told
    assert "scene toy: its adapter's code, its parameters or its assets are others" in told
    assert "left out" not in told
    slower = toy_catalog(tmp_path, task={"max_steps": 12})
    told = refusal(begun, *WEAK, *STRONG, *rules, catalog=slower)
    assert "budget.max_turns: 10 became 12" in told
    assert "scene toy" not in told


@pytest.mark.parametrize("gate", ["fixed", "sequential", "local"])
def test_no_episode_is_added_once_a_gate_has_answered_that_cannot_look_again(
    tmp_path: Path, gate: str
) -> None:
    toy_catalog(tmp_path)
    compare(tmp_path, *WEAK, *STRONG, f"gate={gate}", _PART)

    told = refusal(tmp_path, *WEAK, *STRONG, f"gate={gate}")

    assert "has a verdict on 9 episodes, and 15 more would be another look" in told
    assert "gate=anytime" in told


def test_a_gate_that_may_look_again_takes_more_episodes(tmp_path: Path) -> None:
    toy_catalog(tmp_path)
    compare(tmp_path, *WEAK, *STRONG, "gate=anytime", _PART)
    whole = compare(tmp_path, *WEAK, *STRONG, "gate=anytime")
    repeated = compare(tmp_path, *WEAK, *STRONG, "gate=anytime", "catalog.repeats=2")

    assert whole.episodes == {"weak": 24, "strong": 24}
    assert repeated.episodes == {"weak": 48, "strong": 48}
    (warning,) = whole.result.warnings
    assert "the test of equivalence_margin does not" in warning


def test_a_comparison_without_a_verdict_may_grow_and_goes_on(tmp_path: Path) -> None:
    toy_catalog(tmp_path / "before")
    toy_catalog(tmp_path)
    part = compare(tmp_path / "before", *WEAK, *STRONG, _PART)
    interrupt(part, folder=tmp_path)

    whole = compare(tmp_path, *WEAK, *STRONG)

    assert whole.contrast.standing is Standing.BETTER
    assert whole.episodes == {"weak": 24, "strong": 24}
    assert whole.result.warnings == ()


def interrupt(compared: Compared, *, folder: Path) -> None:
    """What its journal would be, had it ended before the verdict."""
    root = folder / "outputs"
    layout = ExperimentLayout.below(root, compared.result.experiment_id)
    layout.journal.parent.mkdir(parents=True)
    journal = SqliteJournal(layout.journal)
    for event in compared.events:
        if not isinstance(event, ComparisonEnded):
            journal.append(event)
    journal.close()


def test_a_policy_that_shared_the_level_cannot_be_left_out_afterwards(tmp_path: Path) -> None:
    toy_catalog(tmp_path)
    compare(tmp_path, *WEAK, *STRONG, *_THIRD)

    told = refusal(tmp_path, *WEAK, *STRONG)

    assert "policies: third shared the gate's level with strong" in told


def test_a_verdict_on_episodes_drawn_again_is_called_exploratory_from_then_on(
    tmp_path: Path,
) -> None:
    toy_catalog(tmp_path)
    first = compare(tmp_path, *WEAK, *STRONG)
    drawn = compare(tmp_path, *WEAK, *STRONG, "fresh=true")
    again = compare(tmp_path, *WEAK, *STRONG)

    assert first.result.warnings == ()
    for each in (drawn, again):
        (warning,) = each.result.warnings
        assert "what is said now is exploratory" in warning
    assert drawn.episodes == {"weak": 48, "strong": 48}

"""What `iterate` and `power` say a gate does is what the README's table measured, at the level that
is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.assembly import iterate as iterating
from openeta_exp.assembly.power import power_report
from openeta_exp.composition import compose_settings
from openeta_exp.settings.command import PowerSettings


class StartedError(Exception):
    """A simulator would have been started."""


def starting(*_: object, **__: object) -> None:
    raise StartedError


def told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *more: str
) -> str:
    """What `iterate` says before it starts anything."""
    monkeypatch.setattr(iterating, "open_world", starting)
    settings = compose_settings(
        ["+experiment=tabletop_iterate", f"output_root={folder}", "tracking=none", *more]
    )
    with pytest.raises(StartedError):
        iterating.iterate(settings)
    said = capsys.readouterr()
    return " ".join((said.out + said.err).split())


def promised(text: str, candidate: str) -> float:
    before = f"a candidate {candidate} is promoted with probability "
    return float(text.partition(before)[2].split(",")[0])


def test_the_local_gate_of_the_local_tier_does_what_the_table_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(tmp_path, monkeypatch, capsys, "gate=local", "lineage.tier=local")

    assert promised(text, "that changes nothing") == pytest.approx(0.148, abs=0.01)
    assert promised(text, "20 points better") == pytest.approx(0.977, abs=0.01)
    assert "ledger" not in text


def test_a_level_that_the_ledger_lowers_is_said_with_what_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(tmp_path, monkeypatch, capsys, "gate=local")

    assert "one of 6 comparisons alpha 0.0333 of the gate's 0.2, and more after a promotion" in text
    assert "lineage.tier=local keeps the gate's and publishes nothing" in text
    assert promised(text, "that changes nothing") < 0.05


@pytest.mark.parametrize(("tier", "alpha"), [("local", 0.2), ("publish", 0.2 / 6)])
def test_power_plans_with_the_level_that_iterate_uses(tier: str, alpha: float) -> None:
    settings = compose_settings(["command=power", "gate=local", f"lineage.tier={tier}"])
    assert isinstance(settings.command, PowerSettings)

    assert power_report(settings, settings.command).gate_alpha == pytest.approx(alpha)

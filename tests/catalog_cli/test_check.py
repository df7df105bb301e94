"""`command=check`: what a comparison would mean, for a person and for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openeta_exp.assembly import execute
from openeta_exp.composition import compose_settings
from tests.catalog_cli.comparing import STRONG, WEAK, toy_catalog


def check(folder: Path, *overrides: str) -> int:
    return execute(
        compose_settings(
            [
                "command=check",
                f"catalog.path={folder / 'catalog'}",
                "catalog.workers=1",
                f"output_root={folder / 'outputs'}",
                *overrides,
            ]
        )
    )


def test_a_sound_comparison_is_told_so_and_nothing_is_left_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_catalog(tmp_path, task={})

    code = check(tmp_path, *WEAK, *STRONG, "weak.scripted=true", "strong.scripted=true")

    said = capsys.readouterr().out
    assert code == 0
    assert "OK: the comparison means something" in said
    assert "x changes" in said
    assert not (tmp_path / "outputs").exists()


def test_a_meaningless_comparison_ends_with_4_and_its_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_catalog(tmp_path, provider="Plain", scenarios={"params": {"cup_x": {"choices": [1, 2]}}})

    code = check(
        tmp_path, *WEAK, "policy@b=ws://127.0.0.1:9", "b.connect_timeout_s=0.2", "format=json"
    )

    told = json.loads(capsys.readouterr().out)
    assert (code, told["ok"], told["verdict"]) == (4, False, "invalid")
    found = {each["check"]: each for each in told["findings"] if each["verdict"] == "invalid"}
    assert "cup_x" in found["parameter_never_read"]["message"]
    assert found["parameter_never_read"]["evidence"]["access"]["defaulted"]
    assert "no policy server at ws://127.0.0.1:9" in found["policy_unusable"]["message"]

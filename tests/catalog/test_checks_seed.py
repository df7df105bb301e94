"""The documented mistakes that run cleanly and mean nothing: each is caught, by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from openeta_exp.catalog.checks import check_catalog
from openeta_exp.catalog.expansion import Tier, expand
from openeta_exp.catalog.findings import CheckReport, CheckVerdict
from openeta_exp.catalog.reading import read_catalog
from tests.catalog.catalogs import BENCH, policy, running

pytestmark = pytest.mark.anyio

_GET = ('task["cup_x"]', 'task.get("cup_x", 0.0)')
_MISSPELT = ("cup_x:", "cube_x:")
_RENAMED = ('{"front": raw_obs["front_rgb"]}', '{"top": raw_obs["front_rgb"]}')


def edited(directory: Path, **edits: tuple[tuple[str, str], ...]) -> Path:
    """A copy of the documented catalog with texts replaced in `adapter` or `scenarios`."""
    shutil.copytree(BENCH, directory, ignore=shutil.ignore_patterns("__pycache__"))
    files = {"adapter": "my_package/adapter.py", "scenarios": "scenarios.yaml"}
    for name, replacements in edits.items():
        path = directory / files[name]
        text = path.read_text(encoding="utf-8")
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    tasks = directory / "tasks.yaml"
    # The checks look at one episode per policy; a shorter one shows the same.
    tasks.write_text(tasks.read_text(encoding="utf-8").replace("300", "60"), encoding="utf-8")
    return directory


async def checked(directory: Path) -> CheckReport:
    expansion = expand(read_catalog(directory), tier=Tier.SMOKE)
    policies = {
        "a": policy("ShelfPolicy", module="my_package.policies"),
        "b": policy("ShelfPolicy", module="my_package.policies", aside_m=0.02),
    }
    async with running(expansion) as runner:
        return await check_catalog(expansion, runner, policies)


def invalid(report: CheckReport) -> dict[str, str]:
    return {
        each.check: each.message for each in report.findings if each.verdict is CheckVerdict.INVALID
    }


async def test_the_documented_catalog_means_something(tmp_path: Path) -> None:
    report = await checked(edited(tmp_path / "catalog"))

    assert invalid(report) == {}
    assert [each.check for each in report.problems] == ["step_limits_differ"]
    effects = [each.message for each in report.findings if each.check == "parameter_effect"]
    assert any("cup_x changes" in each for each in effects)
    assert any("cup_y changes" in each for each in effects)


async def test_a_misspelt_parameter_is_caught(tmp_path: Path) -> None:
    report = await checked(edited(tmp_path / "catalog", scenarios=(_MISSPELT,)))

    found = invalid(report)
    assert report.verdict is CheckVerdict.INVALID
    assert "cube_x is never read" in found["static_key_scan"]
    assert "did you mean cup_x?" in found["static_key_scan"]
    assert "KeyError: 'cup_x' (" in found["reset_fails"]
    assert "my_package/adapter.py:" in found["reset_fails"]
    assert 'cannot be reset to {"cube_x":' in found["reset_fails"]
    assert "asks its task for cup_x" in found["parameter_absent"]
    assert "'cube_x'" in found["parameter_absent"]


async def test_a_default_that_could_hide_a_misspelling_is_pointed_out(tmp_path: Path) -> None:
    report = await checked(edited(tmp_path / "catalog", adapter=(_GET,)))

    assert report.verdict is CheckVerdict.SUSPECT
    (hidden, *_) = [each for each in report.findings if each.check == "default_hides_parameter"]
    assert "cup_x is read with" in hidden.message


async def test_a_default_that_hides_a_misspelling_is_caught(tmp_path: Path) -> None:
    """Every episode would start from the default; nothing raises."""
    report = await checked(edited(tmp_path / "catalog", adapter=(_GET,), scenarios=(_MISSPELT,)))

    found = invalid(report)
    assert "cube_x is never read" in found["static_key_scan"]
    assert "cube_x reached the adapter and was never read" in found["parameter_never_read"]
    assert "cup_x = 0.0" in found["parameter_never_read"]
    assert "cube_x has no effect" in found["parameter_effect"]


async def test_a_camera_the_policy_does_not_read_is_caught(tmp_path: Path) -> None:
    report = await checked(edited(tmp_path / "catalog", adapter=(_RENAMED,)))

    found = invalid(report)
    assert "asks for images.front" in found["observation_key_absent"]
    assert "images.top" in found["observation_key_absent"]
    assert "no image changes the actions of policy" in found["policy_is_blind"]


async def test_both_mistakes_at_once_are_both_caught(tmp_path: Path) -> None:
    report = await checked(
        edited(tmp_path / "catalog", adapter=(_GET, _RENAMED), scenarios=(_MISSPELT,))
    )

    assert {"parameter_never_read", "parameter_effect", "policy_is_blind"} <= set(invalid(report))

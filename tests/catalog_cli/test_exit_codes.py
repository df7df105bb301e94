"""The same mistake ends `command=check` and `command=compare` with the same exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openeta_exp.assembly import execute
from openeta_exp.cli import guarded
from openeta_exp.composition import compose_settings
from tests.catalog.catalogs import SCENARIOS, SCENE, TASK, write_catalog
from tests.catalog_cli.comparing import STRONG, WEAK

Mistake = Callable[[Path], tuple[str, ...]]


def adapter(provider: str, **params: Any) -> Mistake:
    """A catalog whose only scene has this adapter."""

    def write(folder: Path) -> tuple[str, ...]:
        external = {"provider": f"tests.catalog.toy_bench:{provider}", "params": params}
        write_catalog(folder, scene={"external": external})
        return (*WEAK, *STRONG)

    return write


def second_scene(folder: Path) -> tuple[str, ...]:
    """A catalog whose first scene is sound, and whose second one has no adapter."""
    external = {"provider": "tests.catalog.toy_bench:Reech", "params": {}}
    write_catalog(folder)
    for name, rows in {
        "scenes.yaml": {"scenes": [SCENE, {**SCENE, "id": "other", "external": external}]},
        "tasks.yaml": {"tasks": [TASK, {**TASK, "id": "elsewhere", "scene": "other"}]},
        "scenarios.yaml": {
            "scenario_sets": [SCENARIOS, {**SCENARIOS, "id": "others", "scene": "other"}]
        },
    }.items():
        (folder / name).write_text(json.dumps(rows), encoding="utf-8")
    return (*WEAK, *STRONG)


def no_policy(folder: Path) -> tuple[str, ...]:
    write_catalog(folder)
    return (*WEAK, "policy@b=no_such_module:Policy")


def no_server(folder: Path) -> tuple[str, ...]:
    write_catalog(folder)
    return (*WEAK, "policy@b=ws://127.0.0.1:9", "b.connect_timeout_s=0.2", "b.revision=v1")


def meaningless(folder: Path) -> tuple[str, ...]:
    write_catalog(folder, provider="Plain", scenarios={"params": {"cup_x": {"choices": [1, 2]}}})
    return (*WEAK, *STRONG)


@pytest.mark.parametrize("command", ["check", "compare"])
@pytest.mark.parametrize(
    ("mistake", "code", "said"),
    [
        (adapter("Reech"), 2, "external.provider = 'tests.catalog.toy_bench:Reech'"),
        (second_scene, 2, "task elsewhere on scene other"),
        (no_policy, 2, "policies.b.target = 'no_such_module:Policy'"),
        (adapter("Marked", marks="absent", colour="red"), 2, "colour"),
        (no_server, 3, "no policy server at ws://127.0.0.1:9"),
        (adapter("Breaking", at="reset", how="exit"), 3, "the worker process ended"),
        (meaningless, 4, "cup_x"),
    ],
)
def test_the_same_mistake_has_the_same_exit_code(
    command: str,
    mistake: Mistake,
    code: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    policies = mistake(tmp_path / "catalog")
    settings = compose_settings(
        [
            f"command={command}",
            f"catalog.path={tmp_path / 'catalog'}",
            "catalog.workers=1",
            f"output_root={tmp_path / 'outputs'}",
            "tracking=none",
            "format=json",
            *policies,
        ]
    )

    ended = guarded(lambda: execute(settings))

    printed = capsys.readouterr().out
    assert ended == code
    assert json.loads(printed)["ok"] is False
    assert said in printed


def test_what_cannot_be_built_is_not_run_even_where_the_checks_may_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policies = second_scene(tmp_path / "catalog")
    settings = compose_settings(
        [
            "command=compare",
            f"catalog.path={tmp_path / 'catalog'}",
            "catalog.workers=1",
            "catalog.allow_invalid=true",
            f"output_root={tmp_path / 'outputs'}",
            "tracking=none",
            *policies,
        ]
    )

    assert guarded(lambda: execute(settings)) == 2
    assert "task elsewhere on scene other" in capsys.readouterr().err

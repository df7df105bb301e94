"""What a source does with its task is read from the source, or admitted to be unknown."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from openeta_exp.catalog.checks_static import KeyScan, check_static, scan_adapter
from openeta_exp.catalog.findings import CheckVerdict

_COUNT = iter(range(1000))


def scanned(directory: Path, body: str, *, bases: str = "") -> KeyScan:
    provider = write(directory, body, bases=bases)
    scan = scan_adapter(provider, [str(directory)])
    assert scan is not None
    return scan


def write(directory: Path, body: str, *, bases: str = "") -> str:
    module = f"scanned_adapter_{next(_COUNT)}"
    source = f"class Adapter{bases}:\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    (directory / f"{module}.py").write_text(source, encoding="utf-8")
    return f"{module}:Adapter"


@pytest.mark.parametrize(
    "body",
    [
        "def reset(self, task):\n    return task['x']",
        "def reset(self, task):\n    t = task\n    return t['x']",
        "def reset(self, task):\n    return self._place(1, task)\n"
        "def _place(self, n, where):\n    return where['x']",
        "def reset(self, task):\n    self._kept = task\n"
        "def step(self, action):\n    return self._kept['x']",
        "def make_obs(self, raw_obs, task):\n    return task['x']\ndef reset(self, task): pass",
        "async def start_episode(self, task, recorder=None):\n    self.x = task['x']",
        "def reset(self, task):\n    own = task.copy()\n    return own['x']",
    ],
)
def test_a_key_is_found_however_the_task_gets_there(tmp_path: Path, body: str) -> None:
    scan = scanned(tmp_path, body)

    assert set(scan.read) == {"x"}
    assert scan.opaque == []


@pytest.mark.parametrize(
    "body",
    [
        "def reset(self, task):\n    return make(**task)",
        "def reset(self, task):\n    return {**task}",
        "def reset(self, task):\n    return [task[k] for k in KEYS]",
        "def reset(self, task):\n    return task.items()",
        "def reset(self, task):\n    return build(scenario=task)",
        "def reset(self, task):\n    return helper.place(task)",
        "def get_tasks(self):\n    return []",
    ],
)
def test_a_task_that_is_handed_on_whole_is_unknown_and_not_fine(tmp_path: Path, body: str) -> None:
    assert scanned(tmp_path, body).opaque
    verdicts = {
        each.verdict for each in check_static(write(tmp_path, body), ["x"], [str(tmp_path)])
    }
    assert verdicts == {CheckVerdict.UNKNOWN}


def test_methods_of_bases_in_the_same_module_count(tmp_path: Path) -> None:
    source = (
        "class Base:\n    def reset(self, task):\n        return self.place(task)\n"
        "class Adapter(Base):\n    def place(self, task):\n        return task['y']\n"
    )
    (tmp_path / "based_adapter.py").write_text(source, encoding="utf-8")
    scan = scan_adapter("based_adapter:Adapter", [str(tmp_path)])

    assert scan is not None
    assert set(scan.read) == {"y"}


def test_a_source_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "broken_adapter.py").write_text("class Adapter(:", encoding="utf-8")

    for provider in ("not_there_at_all:Adapter", "broken_adapter:Adapter", "json:Adapter"):
        (finding,) = check_static(provider, ["x"], [str(tmp_path)])
        assert finding.verdict is CheckVerdict.UNKNOWN


def test_keys_of_the_adapters_own_tasks_need_no_scenario(tmp_path: Path) -> None:
    body = (
        "def get_tasks(self):\n    return [{'name': 'a', 'level': 3}]\n"
        "def reset(self, task):\n    return task['x'], task['level'], task['episode_idx']\n"
    )
    (finding,) = check_static(write(tmp_path, body), ["x"], [str(tmp_path)])

    assert finding.verdict is CheckVerdict.OK


def test_an_extra_key_that_nobody_declares_is_suspect(tmp_path: Path) -> None:
    body = "def reset(self, task):\n    return task['x'], task['cup_y']"
    (finding,) = check_static(write(tmp_path, body), ["x"], [str(tmp_path)])

    assert finding.verdict is CheckVerdict.SUSPECT
    assert "reads cup_y" in finding.message

"""What an agent's Python tries, and the name of what stops it. Nothing outside is ever shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openeta_exp.adapters.sandbox.monty import MontySandbox
from openeta_exp.adapters.store.layout import PhaseLayout
from openeta_exp.adapters.store.session_log import FolderSessionLogs
from openeta_exp.domain.artifact import ArtifactTree
from openeta_exp.domain.identity import SessionId
from openeta_exp.domain.tool import ToolCall, ToolResult
from openeta_exp.engine.host import EpisodeHost
from openeta_exp.engine.python_tool import MAX_FOLDER_FILES, PythonTools
from openeta_exp.ports.sandbox import SandboxLimits
from openeta_exp.ports.session_log import SessionLog
from tests.worlds import view

pytestmark = pytest.mark.anyio

SECRET = "the-key-nobody-may-see"

REFUSED_PATHS = {
    "one step up": 'open("../secret.txt").read()',
    "two steps up": 'open("../../secret.txt").read()',
    "through its own root": 'open("/sandbox/../secret.txt").read()',
    "absolute": 'open("/etc/passwd").read()',
    "the host's own path": 'open("{outside}").read()',
    "a link with an absolute target": 'open("/sandbox/absolute_link").read()',
    "a link with a relative target": 'open("/sandbox/relative_link").read()',
    "a linked folder": 'open("/sandbox/linked_folder/secret.txt").read()',
    "pathlib's parent": (
        'from pathlib import Path\nPath("/sandbox").parent.joinpath("secret.txt").read_text()'
    ),
    "listing the root": 'import os\nos.listdir("/")',
    "the process's environment": 'open("/proc/self/environ").read()',
    "writing elsewhere": 'open("/etc/openeta", "w").write("x")',
    "changing the folder": 'import os\nos.chdir("/")\nopen("etc/passwd").read()',
    "os.environ": 'import os\nos.environ["OPENETA_LLM_API_KEY"]',
    "os.getenv": 'import os\nos.getenv("OPENETA_LLM_API_KEY")',
    "printing the environment": "import os\nprint(os.environ)",
    "expandvars": 'import os\nos.path.expandvars("$OPENETA_LLM_API_KEY")',
    "sockets": "import socket",
    "urllib": "import urllib.request",
    "http": "import http.client",
    "ssl": "import ssl",
    "requests": "import requests",
    "subprocess": "import subprocess",
    "multiprocessing": "import multiprocessing",
    "threads": "import threading",
    "ctypes": "import ctypes",
    "importlib": 'import importlib\nimportlib.import_module("socket")',
    "pickle": "import pickle",
    "exec of an import": 'exec("import socket")',
    "io.open": 'import io\nio.open("/etc/passwd").read()',
    "numpy.save": "import numpy",
    "the physics engine": "import mujoco",
}
UNKNOWN = {
    "full-width dots": 'open("．．/secret.txt").read()',
    "a null byte": 'open("../secret.txt\\0.png").read()',
    "making a link": 'import os\nos.symlink("/etc/passwd", "/sandbox/l")',
    "making a hard link": 'import os\nos.link("/etc/passwd", "/sandbox/l")',
    "moving out": 'import os\nopen("a", "w").write("x")\nos.rename("/sandbox/a", "/a")',
    "a fork bomb": "import os\nwhile True: os.fork()",
    "a shell": 'import os\nos.system("id")',
    "a connection": 'import asyncio\nasyncio.run(asyncio.open_connection("127.0.0.1", 80))',
    "subclasses": "().__class__.__bases__[0].__subclasses__()",
    "__import__": "eval(\"__import__('os').environ\")",
    "a module's module": "import random\nrandom._os.environ",
    "globals of a function": "(lambda: 0).__globals__",
    "self of a builtin": "print.__self__",
    "format strings": '"{{0.__class__}}".format(1)',
    "a traceback's frame": "try:\n  1 / 0\nexcept Exception as e:\n  e.__traceback__.tb_frame",
    "the simulator's facade": 'mcp.call_tool("move_to", {{}})',
    "resetting with another seed": "reset_env(seed=99)",
    "moving the arm": "move_to(0.1, 0.2, 0.3)",
    "endless recursion": "def f(n): return f(n + 1)\nf(0)",
}
STOPPED = {
    "an endless loop": ("while True: pass", "sandbox_timeout"),
    "an endless await": (
        "import asyncio\nasync def f():\n  while True: await asyncio.sleep(0)\nasyncio.run(f())",
        "sandbox_timeout",
    ),
    "a flood of output": ('while True: print("a" * 1000)', "sandbox_timeout"),
    "a long sleep": ("import time\ntime.sleep(10**6)", "sandbox_timeout"),
    "a doubling text": ('x = "a" * 10**6\nwhile True: x = x + x', "sandbox_memory"),
    "a huge list": ("x = [0] * 10**9", "sandbox_memory"),
    "a huge number": ("10**10**10", "sandbox_memory"),
    "a huge value": ('"a" * 10**6', "sandbox_output"),
    "a full disk": ('while True: open("f", "a").write("x" * 10**6)', "sandbox_limit"),
    "a flood of files": (
        'for i in range(10**6): open(f"f{i}", "w").write("")',
        "sandbox_limit",
    ),
    "no Python at all": ("def", "python_error"),
}


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SessionLog:
    """A session with a secret one step outside its sandbox, and links that lead there."""
    monkeypatch.setenv("OPENETA_LLM_API_KEY", SECRET)
    logs = FolderSessionLogs(PhaseLayout(tmp_path), frames="none")
    log = logs.open(SessionId("one-1"), ArtifactTree())
    folder = log.sandbox()
    outside = folder.parent / "secret.txt"
    outside.write_text(SECRET, encoding="utf-8")
    (folder / "absolute_link").symlink_to(outside)
    (folder / "relative_link").symlink_to(Path("../secret.txt"))
    (folder / "linked_folder").symlink_to(Path(".."))
    return log


async def attempt(sandbox: MontySandbox, session: SessionLog, code: str) -> ToolResult:
    host = EpisodeHost(observation=view(), initial_observation=view())
    text = code.format(outside=session.sandbox().parent / "secret.txt") if "{" in code else code
    result = await PythonTools(sandbox, host, session).run(
        ToolCall(name="python_exec", arguments={"code": text, "timeout_s": 1.0})
    )
    assert SECRET not in repr(result)
    assert "root:" not in repr(result)
    return result


@pytest.mark.parametrize("code", REFUSED_PATHS.values(), ids=REFUSED_PATHS)
async def test_what_is_outside_is_forbidden(
    sandbox: MontySandbox, session: SessionLog, code: str
) -> None:
    result = await attempt(sandbox, session, code)

    assert not result.success
    assert result.diagnostics[0].code == "sandbox_forbidden"


@pytest.mark.parametrize("code", UNKNOWN.values(), ids=UNKNOWN)
async def test_what_could_reach_further_is_not_there(
    sandbox: MontySandbox, session: SessionLog, code: str
) -> None:
    result = await attempt(sandbox, session, code)

    assert not result.success
    assert result.diagnostics[0].code == "python_error"


@pytest.mark.parametrize(("code", "named"), STOPPED.values(), ids=STOPPED)
async def test_what_would_never_end_is_ended(
    sandbox: MontySandbox, session: SessionLog, code: str, named: str
) -> None:
    source = code.replace("{", "{{").replace("}", "}}")

    result = await attempt(sandbox, session, source)

    assert not result.success
    assert result.diagnostics[0].code == named
    assert len(repr(result)) < 10_000


async def test_a_run_after_a_crash_and_a_limit_still_works_and_starts_from_nothing(
    sandbox: MontySandbox, session: SessionLog
) -> None:
    await attempt(sandbox, session, "x = 1\nwhile True: pass")

    remembered = await attempt(sandbox, session, "x")
    value = await attempt(
        sandbox,
        session,
        'import math\nround(math.hypot(3, 4) + observation["robot"]["gripper_openness"], 1)',
    )

    assert remembered.diagnostics[0].code == "python_error"
    assert value.outputs["value"] == 6.0


async def test_files_stay_in_the_session_until_they_are_too_many(
    sandbox: MontySandbox, session: SessionLog
) -> None:
    await attempt(sandbox, session, 'open("note.txt", "w").write("grasp 2")')
    again = await attempt(sandbox, session, 'open("/sandbox/note.txt").read()')
    for number in range(MAX_FOLDER_FILES):
        (session.sandbox() / f"f{number}").touch()

    full = await attempt(sandbox, session, "1 + 1")

    assert again.outputs["value"] == "grasp 2"
    assert full.diagnostics[0].code == "sandbox_full"


async def test_leaving_the_sandbox_is_refused_whoever_asks(
    sandbox: MontySandbox, session: SessionLog
) -> None:
    host = EpisodeHost(observation=view(), initial_observation=view())

    result = await PythonTools(sandbox, host, session).run(
        ToolCall(name="python_exec", arguments={"code": "1", "sandbox": "outside_sandbox"})
    )

    assert result.diagnostics[0].code == "outside_sandbox_refused"


async def test_the_host_keeps_its_environment(sandbox: MontySandbox, tmp_path: Path) -> None:
    before = dict(os.environ)

    await sandbox.run(
        'import os\nos.putenv("A", "b")', inputs={}, folder=tmp_path, limits=SandboxLimits()
    )

    assert dict(os.environ) == before

"""What an agent's Python comes to: JSON, text or a reason; never more than the host bears.

Objects that share parts are small where they were made and endless where they are unfolded.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from openeta_exp.adapters.sandbox.monty import MontySandbox
from openeta_exp.domain.record import check_json
from openeta_exp.ports.sandbox import SandboxLimits, SandboxRun

pytestmark = pytest.mark.anyio

LIMITS = SandboxLimits(duration_s=1.0, memory_bytes=64 * 1024 * 1024, output_characters=2_000)
OBJECT = "class A:\n  pass\n"
ANSWERS = "class A:\n  def __repr__(self): return {}\nA()"
SHARED_LIST = "x = [1]\nfor i in range(60): x = [x, x]\n"
SHARED_TUPLE = "x = (1,)\nfor i in range(60): x = (x, x)\n"
IMPOSSIBLE_NAMES = (
    "from collections import namedtuple\nN = namedtuple('N', ['a', 'class'], rename=True)\nN(1, 2)"
)

JSON: dict[str, tuple[str, JsonValue]] = {
    "numbers": ("[1, -2.5, True, None]", [1, -2.5, True, None]),
    "a tuple": ("1, (2, 3)", [1, [2, 3]]),
    "an unpacked list": ("x = [1]\n*x, 2", [1, 2]),
    "an object": ('{"a": (1, {2: "ü"})}', {"a": [1, {"2": "ü"}]}),
    "quotes and a line end": ("'it\\'s\\n\"so\"\\x00'", 'it\'s\n"so"\x00'),
    "half a surrogate pair": ("'\\ud800'", "\ufffd"),
    "after a semicolon and a wide character": ("x = '雪'; x + 'é'", "雪é"),
    "over several lines": ("(1 +\n 2) # three", 3),
    "Windows line ends": ("x = 1\r\nx + 1\r\n", 2),
    "an await": ("async def f(): return 1\nawait f()", 1),
    "no last expression": ("x = 1", None),
    "an expression that is not last": ("if True:\n  5", None),
    "nothing": ("", None),
    "with every builtin renamed": ("repr = str = print = 0\n'a'", "a"),
}
TEXT = {
    "not a number": ("[float('nan')]", "[nan]"),
    "infinity": ("1e400", "inf"),
    "bytes": ("b'\\xff'", "b'\\xff'"),
    "a set": ("{1}", "{1}"),
    "a key that is a tuple": ("{(1, 2): 3}", "{(1, 2): 3}"),
    "keys that are one in JSON": ("{1: 2, '1': 3}", "{1: 2, '1': 3}"),
    "more than a double holds": ("10**400", "1" + "0" * 400),
    "a range": ("range(10**9)", "range(0, 1000000000)"),
    "a field name that is a keyword": (IMPOSSIBLE_NAMES, "N(a=1, _1=2)"),
    "an answer nested too deeply to read": (ANSWERS.format("'(' * 1_990"), "(" * 1_990),
    "an answer with endless signs": (ANSWERS.format("'-' * 1_990"), "-" * 1_990),
    "an answer that cannot be made": (ANSWERS.format("'{[1]: 2}'"), "{[1]: 2}"),
    "an answer with too many digits": (
        ANSWERS.format("'[0x' + 'f' * 1_900 + ', 1e999]'"),
        "[0x" + "f" * 1_900 + ", 1e999]",
    ),
}
BEGINS = {
    "an object as a key": (OBJECT + "{A(): 1}", "{<A object at "),
    "a set of objects": (OBJECT + "{A()}", "{<A object at "),
    "an object that holds an endless list": (
        SHARED_LIST + "class A:\n  def __init__(self): self.x = x\nA()",
        "<A object at ",
    ),
    "nested too deeply for JSON": ("x = []\nfor i in range(200): x = [x]\nx", "[[[["),
    "a list with a thousand levels": ("x = []\nfor i in range(1_000): x = [x]\nx", "[[[["),
    "a function": ("lambda: 1", "<function "),
}
REFUSED = {
    "a number with too many digits": ("10**5000", "python_error"),
    "a factorial": ("import math\nmath.factorial(2000)", "python_error"),
    "inside a list": ("[10**5000]", "python_error"),
    "inside a set": ("{10**5000}", "python_error"),
    "as a key": ("{10**5000: 1}", "python_error"),
    "in an object": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n  x: int\nA(10**5000)",
        "python_error",
    ),
    "printed": ("print(10**5000)", "python_error"),
    "raised": ("raise ValueError(10**5000)", "python_error"),
    "a long message": ("raise ValueError('x' * 10**6)", "python_error"),
    "an answer that fails": (ANSWERS.format("1 / 0"), "python_error"),
    "an answer that is no text": (ANSWERS.format("5"), "python_error"),
    "an answer that never comes": (
        "class A:\n  def __repr__(self):\n    while True: pass\nA()",
        "sandbox_timeout",
    ),
    "endless recursion": ("def f(): return f()\nf()", "python_error"),
    "source with half a surrogate pair": ("'\ud800'", "python_error"),
    "source nested too deeply": ("[" * 5_000, "python_error"),
    "source with a null byte": ("'\x00", "python_error"),
    "a long text": ("'a' * 10**6", "sandbox_output"),
    "long bytes": ("b'a' * 10**6", "sandbox_output"),
    "a long list": ("[0] * 10**5", "sandbox_output"),
    "an answer longer in JSON than in Python": ("'雪' * 1_000", "sandbox_output"),
    "a text that is more than the memory": ("'a' * 10**9", "sandbox_memory"),
}
ENDLESS = {
    "a list": SHARED_LIST + "x",
    "a key": SHARED_TUPLE + "{x: 1}",
    "a member of a set": SHARED_TUPLE + "{x}",
    "what is printed": SHARED_LIST + "print(x)",
}


async def run(sandbox: MontySandbox, folder: Path, source: str) -> SandboxRun:
    done = await sandbox.run(source, inputs={}, folder=folder, limits=LIMITS)
    check_json([done.value, done.printed, done.message])
    return done


@pytest.mark.parametrize(("source", "value"), JSON.values(), ids=JSON)
async def test_what_json_can_hold_comes_back_as_json(
    sandbox: MontySandbox, tmp_path: Path, source: str, value: JsonValue
) -> None:
    done = await run(sandbox, tmp_path, source)

    assert done == SandboxRun(value=value, printed="")


@pytest.mark.parametrize(("source", "value"), TEXT.values(), ids=TEXT)
async def test_what_json_cannot_hold_comes_back_as_python_writes_it(
    sandbox: MontySandbox, tmp_path: Path, source: str, value: str
) -> None:
    done = await run(sandbox, tmp_path, source)

    assert done == SandboxRun(value=value, printed="")


@pytest.mark.parametrize(("source", "beginning"), BEGINS.values(), ids=BEGINS)
async def test_an_object_comes_back_as_python_writes_it(
    sandbox: MontySandbox, tmp_path: Path, source: str, beginning: str
) -> None:
    done = await run(sandbox, tmp_path, source)

    assert done.code is None
    assert str(done.value).startswith(beginning)


@pytest.mark.parametrize(("source", "code"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_shown_is_an_unsuccessful_run_and_the_next_one_works(
    sandbox: MontySandbox, tmp_path: Path, source: str, code: str
) -> None:
    done = await run(sandbox, tmp_path, source)
    after = await run(sandbox, tmp_path, "1 + 1")

    assert (done.value, done.code) == (None, code)
    assert done.message
    assert len(done.message) <= 2_000
    assert after.value == 2


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
async def test_what_unfolds_without_end_ends_with_the_runs_time_or_memory(
    sandbox: MontySandbox, tmp_path: Path, source: str
) -> None:
    done = await run(sandbox, tmp_path, source)

    assert done.value is None
    assert done.code in ("sandbox_timeout", "sandbox_memory")


async def test_a_number_with_too_many_digits_is_named_as_the_reason(
    sandbox: MontySandbox, tmp_path: Path
) -> None:
    done = await run(sandbox, tmp_path, 'print("before")\n10**5000')

    assert "4300 digits" in done.message
    assert done.printed == "before\n"

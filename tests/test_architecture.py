"""The house rules that a machine can check (see the contracts in pyproject.toml)."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted((ROOT / "openeta_exp").rglob("*.py"))
THIRD_PARTY_CONTRACTS = ("openeta_exp/catalog/host", "openeta_exp/adapters/policy")
"""Where simulator adapters and policies of others are called, whose contract is a dictionary."""
HEAVY = ("numpy", "scipy", "mujoco", "libero", "mcp", "openai", "mlflow", "rich", "tiktoken")


def test_imports_point_downwards_only() -> None:
    linted = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("module", ["cli", "seed_cli", "assembly", "settings.parsing", "errors"])
def test_the_command_line_starts_without_anything_heavy(module: str) -> None:
    program = f"import openeta_exp.{module}, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert not set(loaded.stdout.split()) & set(HEAVY)


def test_showing_the_configuration_loads_nothing_heavy() -> None:
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "openeta_exp", "--cfg", "job"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines()}

    assert "experiment_id: experiment" in shown.stdout
    assert "hydra" in loaded
    assert not loaded & {*HEAVY, "pydantic"}


def test_untyped_dictionaries_stay_where_a_third_party_hands_them_over() -> None:
    offenders = [
        str(module.relative_to(ROOT))
        for module in MODULES
        if not module.is_relative_to(ROOT / "openeta_exp" / "wire")
        and not any(module.is_relative_to(ROOT / each) for each in THIRD_PARTY_CONTRACTS)
        and "dict[str, Any]" in module.read_text(encoding="utf-8")
    ]

    assert offenders == []


def test_no_module_is_longer_than_can_be_read() -> None:
    long = {
        str(module.relative_to(ROOT)): lines
        for module in MODULES
        if (lines := len(module.read_text(encoding="utf-8").splitlines())) > 400
    }

    assert long == {}


def test_nothing_swallows_what_it_cannot_name() -> None:
    offenders = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
        and not isinstance(node.body[-1], ast.Raise)
    ]

    assert offenders == []


def test_a_count_is_written_with_its_noun_by_the_helper_that_knows_one_from_many() -> None:
    """A constant is never one, and may be written out."""
    noun = re.compile(
        r" (?:(?:more|fresh|valid|earlier|failed|training|canary|held-out|safety|contract) )?"
        r"(?:pairs|episodes|turns|tokens|tasks|steps|generations|scenarios|cases|policies|resets|"
        r"targets|violations)\b"
    )
    offenders = [
        f"{module.relative_to(ROOT)}:{text.lineno}: {ast.unparse(count)}{words.value!r}"
        for module in MODULES
        for text in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(text, ast.JoinedStr)
        for count, words in itertools.pairwise(text.values)
        if isinstance(count, ast.FormattedValue)
        and not (isinstance(count.value, ast.Name) and count.value.id.isupper())
        and isinstance(words, ast.Constant)
        and isinstance(words.value, str)
        and noun.match(words.value)
    ]

    assert offenders == []

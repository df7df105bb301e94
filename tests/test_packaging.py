"""The wheel, the lock files and the scripts of a fresh clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("core", "libero", "ui", "dev")
SCRIPTS = sorted(
    each
    for each in [*(ROOT / "scripts").iterdir(), *(ROOT / ".ci").iterdir()]
    if each.is_file() and each.read_bytes().startswith(b"#!")
)


@pytest.fixture(scope="module")
def wheel_contents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, as an installation has it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def started(*arguments: str, site: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "openeta_exp", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_has_every_file_of_the_configuration_and_the_baselines(
    wheel_contents: Path,
) -> None:
    def files(folder: Path) -> set[str]:
        paths = (each for each in folder.rglob("*") if each.suffix in (".yaml", ".md", ".json"))
        return {str(each.relative_to(folder)) for each in paths}

    installed = wheel_contents / "openeta_exp"
    assert files(installed / "conf") == files(ROOT / "conf")
    assert files(installed / "embedded") == files(ROOT / "openeta_exp" / "embedded")


def test_the_installed_wheel_runs_from_any_directory(wheel_contents: Path, tmp_path: Path) -> None:
    shown = started("+experiment=libero_grasp", "--cfg", "job", site=wheel_contents, cwd=tmp_path)
    paths = started("--info", "searchpath", site=wheel_contents, cwd=tmp_path)
    checked = started("command=validate", site=wheel_contents, cwd=tmp_path)

    assert "experiment_id: libero_grasp" in shown.stdout
    assert str(wheel_contents / "openeta_exp" / "conf") in paths.stdout
    assert str(ROOT / "conf") not in paths.stdout
    assert checked.returncode == 0, checked.stderr
    assert '"valid": true' in checked.stdout


def test_the_installed_wheel_brings_its_launcher_and_no_top_level_plugin(
    wheel_contents: Path, tmp_path: Path
) -> None:
    shown = started("--info", "plugins", site=wheel_contents, cwd=tmp_path)

    assert "GenerationsLauncher" in shown.stdout
    assert not (wheel_contents / "hydra_plugins").exists()


def test_an_error_in_the_installed_wheel_names_the_file_without_its_place(
    wheel_contents: Path, tmp_path: Path
) -> None:
    ran = started("simulator=mcp", "perception=none", site=wheel_contents, cwd=tmp_path)

    assert ran.stderr.startswith("conf/simulator/mcp.yaml: simulator.url = null")


def pins(layer: str) -> dict[str, str]:
    """`name ; marker` -> version of one lock file."""
    text = (ROOT / "scripts" / "locks" / f"{layer}.lock").read_text(encoding="utf-8")
    lines = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*])?==(\S+)( ; .*?)? \\$", text, re.MULTILINE)
    return {f"{name}{marker}": version for name, version, marker in lines}


@pytest.mark.parametrize("layer", [*LAYERS, "uv"])
def test_a_lock_pins_every_package_with_hashes_and_names_no_registry(layer: str) -> None:
    text = (ROOT / "scripts" / "locks" / f"{layer}.lock").read_text(encoding="utf-8")
    requirements = re.findall(r"^\S.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)

    assert len(requirements) == len(pins(layer))
    assert all("--hash=sha256:" in each for each in requirements)
    assert "://" not in text
    assert "index-url" not in text


@pytest.mark.parametrize("layer", ["core", "libero", "ui"])
def test_every_layer_is_part_of_dev_so_that_layers_add_up(layer: str) -> None:
    dev = {name.partition(" ; ")[0]: version for name, version in pins("dev").items()}

    assert {name.partition(" ; ")[0] for name in pins(layer)} <= set(dev)
    assert set(pins(layer).values()) <= set(pins("dev").values())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.name)
def test_a_script_is_executable_and_well_formed(script: Path) -> None:
    assert os.access(script, os.X_OK)
    if b"bash" in script.read_bytes().splitlines()[0]:
        subprocess.run(["bash", "-n", script], check=True)


def test_continuous_integration_checks_and_tests() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    assert "scripts/check" in text
    assert "scripts/test" in text


def test_a_layer_that_does_not_exist_is_refused() -> None:
    ran = subprocess.run(
        [ROOT / "scripts" / "setup", "everything"], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 2
    assert "use core, libero, ui or dev" in ran.stderr


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A checkout whose setup and python only say how they were called."""
    root = tmp_path / "a clone"
    (root / "scripts").mkdir(parents=True)
    (root / ".venv" / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / "conf", root / "conf")
    shutil.copy(ROOT / "scripts" / "run", root / "scripts" / "run")
    for name in ("scripts/setup", ".venv/bin/python"):
        (root / name).write_text('#!/usr/bin/env bash\necho "$(basename "$0"):" "$@"\n')
        (root / name).chmod(0o755)
    return root


@pytest.mark.parametrize(
    ("arguments", "layer"),
    [
        (["+experiment=libero_grasp"], "libero"),
        (["experiment=libero_smoke"], "libero"),
        (["manifest=libero_object_heldout"], "libero"),
        (["+experiment=libero_grasp", "manifest=tabletop_smoke"], "core"),
        (["+experiment=libero_grasp", "--cfg", "job"], "core"),
        (["+experiment=libero_grasp", "command=validate"], "core"),
        (["+experiment=tabletop_smoke"], "core"),
        (["manifest=libero_smoke", "simulator=mcp", "simulator.url=http://h/mcp"], "core"),
        (["--help"], "core"),
        ([], "core"),
    ],
)
def test_the_run_script_installs_what_the_experiment_needs(
    clone: Path, arguments: list[str], layer: str
) -> None:
    ran = subprocess.run(
        [clone / "scripts" / "run", *arguments], capture_output=True, text=True, check=True
    )

    assert ran.stdout.splitlines() == [
        f"setup: {layer}",
        " ".join(["python: -m openeta_exp", *arguments]),
    ]


def test_the_run_script_looks_into_a_manifest_file(clone: Path, tmp_path: Path) -> None:
    path = tmp_path / "my manifest.json"
    path.write_text('[{"env_id": "openeta/libero_libero_object_task0-v0", "task": "t"}]')

    ran = subprocess.run(
        [clone / "scripts" / "run", f"manifest.path={path}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout.startswith("setup: libero\n")


def benchmarks() -> list[str]:
    """Names of those that `scripts/bench` tells of."""
    told = subprocess.run(
        [ROOT / "scripts" / "bench"], capture_output=True, text=True, check=True
    ).stdout
    return re.findall(r"^  (\w+) ", told, re.MULTILINE)


def test_every_benchmark_that_can_be_run_alone_is_told_of_and_run(clone: Path) -> None:
    shutil.copy(ROOT / "scripts" / "bench", clone / "scripts" / "bench")
    runnable = [
        each.stem
        for each in (ROOT / "scripts" / "benchmarks").glob("*.py")
        if "scripts/bench " + each.stem in each.read_text(encoding="utf-8")
    ]

    assert sorted(runnable) == sorted(benchmarks())
    for name in runnable:
        ran = subprocess.run(
            [clone / "scripts" / "bench", name, "--seed", "1"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stdout == f"setup: dev\npython: -m scripts.benchmarks.{name} --seed 1\n"


def test_a_benchmark_that_does_not_exist_is_refused() -> None:
    ran = subprocess.run(
        [ROOT / "scripts" / "bench", "speed"], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 2
    assert ran.stderr == (
        "scripts/bench: there is no benchmark 'speed'; scripts/bench lists them\n"
    )


def test_the_interface_refuses_a_place_where_nothing_was_tracked_and_creates_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()

    for place in ("absent", "empty"):
        ran = subprocess.run(
            [ROOT / "scripts" / "ui", place],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr == (
            f"scripts/ui: {place}/mlflow/mlflow.db: nothing was tracked there; name the "
            "output_root of a run: scripts/ui OUTPUT_ROOT\n"
        )
    assert [*tmp_path.rglob("*")] == [tmp_path / "empty"]

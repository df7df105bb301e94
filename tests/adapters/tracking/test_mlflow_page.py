"""A person looks at a tracked batch in the browser."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import anyio
import pytest
from werkzeug.serving import make_server

from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.adapters.tracking.mlflow_runs import MlflowRuns
from openeta_exp.adapters.tracking.projector import Projector
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.manifest import EpisodeSpec
from openeta_exp.reporting.comparison_report import comparison_report
from tests.adapters.tracking.conftest import BROWSERS
from tests.adapters.tracking.mlflow_page import Page
from tests.batches import broke, lost, manifest, story, won
from tests.generations import lineage

pytestmark = pytest.mark.browser


@pytest.fixture
def server(target: MlflowTarget, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """MLflow's own pages on the store of the test, without the half minute its command takes."""
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", target.uri)
    from mlflow.server import app

    pages = make_server("127.0.0.1", 0, app, threaded=True)
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(pages.serve_forever)
        yield f"http://127.0.0.1:{pages.port}"
        pages.shutdown()
        serving.result()
    pages.server_close()


def seen(url: str, profile: Path) -> str:
    """The page as the browser has it after its scripts have run."""
    browser = next(filter(None, map(shutil.which, BROWSERS)))
    command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={profile}", "--window-size=1600,2000"]
    command += ["--virtual-time-budget=15000", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_the_run_page_shows_metrics_and_the_table_of_outcomes(
    target: MlflowTarget, server: str, tmp_path: Path
) -> None:
    episodes = manifest(8)
    kinds: list[Callable[[EpisodeSpec], EpisodeOutcome]] = [
        won,
        won,
        lost,
        won,
        broke,
        won,
        won,
        won,
    ]
    outcomes = [make(each) for make, each in zip(kinds, episodes.episodes, strict=True)]
    projector = Projector(lambda: MlflowRuns(target))
    for seq, event in enumerate(story(episodes, outcomes), start=1):
        projector.add(seq, event)
    projector.flush()
    (run,) = Page(target).runs()
    address = f"{server}/#/experiments/{run.info.experiment_id}/runs"

    table = seen(address, tmp_path / "profile")
    page = seen(f"{address}/{run.info.run_id}", tmp_path / "profile")
    artifact = seen(f"{address}/{run.info.run_id}/artifacts/outcomes.json", tmp_path / "profile")

    assert "g0 train 6/8" in table
    assert "6 of 8 episodes solved: 75 % (41 to 93 %)" in page
    assert "summary/success_rate_over_results" in page
    assert "provider.model" in page
    assert "View as table" in artifact
    for text in ("episode-4", "failure_class", "provider_unavailable", "max_turns"):
        assert text in artifact


def test_the_pages_of_a_comparison_and_of_two_generations_show_what_was_decided(
    target: MlflowTarget, server: str, tmp_path: Path
) -> None:
    _, facts = anyio.run(partial(lineage, 16, 4))
    projector = Projector(lambda: MlflowRuns(target), render=comparison_report)
    for seq, event in enumerate(facts, start=1):
        projector.add(seq, event)
    shown = projector.flush()
    assert shown is not None
    assert shown.compare is not None
    run = next(
        each
        for each in Page(target).runs()
        if each.data.tags.get("promoted") and each.data.tags.get("kind") == "comparison"
    )
    address = f"{server}/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"

    page = seen(address, tmp_path / "profile")
    generations = seen(f"{server}/{shown.compare}", tmp_path / "profile")

    assert "PROMOTE superior: 7 fixed, 0 regressed of 16 pairs" in page
    assert "exp.grasp_strategy.grip (v2)" in page
    assert "Comparing 2 Runs" in generations
    for text in ("g0 train 3/6", "g1 train 5/6", "v1 r1.6", "v2 r2.16"):
        assert text in generations

"""Which author is built for which setting, and what is said if it cannot be."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from openeta_exp import cli
from openeta_exp.adapters.authoring.gepa_author import GepaStrategyAuthor
from openeta_exp.assembly import authors
from openeta_exp.composition import compose_settings
from openeta_exp.domain.artifact import ArtifactKind
from openeta_exp.engine.author import NOTHING, Allowance
from openeta_exp.errors import SettingsError
from tests.speaking import SpeakingProvider


@pytest.fixture
def without_gepa(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(authors, "find_spec", find_spec)


@pytest.mark.parametrize("command", ["iterate", "validate"])
@pytest.mark.usefixtures("without_gepa")
def test_a_missing_extra_is_one_sentence_with_the_command_that_installs_it(
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    code = cli.run(["+experiment=tabletop_iterate", "author=gepa", f"command={command}"])

    assert code == 2
    assert capsys.readouterr().err == (
        "author = gepa: the package gepa is not installed; run "
        "`pip install 'openeta_exp[gepa]'`, or choose another author\n"
    )
    assert not (tmp_path / "outputs" / "experiments").exists()


@pytest.mark.usefixtures("without_gepa")
def test_nobody_else_needs_the_extra() -> None:
    for author in ("scripted", "model"):
        authors.check_author(compose_settings([f"author={author}"]).author)


def test_gepa_writes_grasp_strategies_within_the_allowance_that_is_set() -> None:
    settings = compose_settings(["author=gepa", "author.max_episodes=12", "author.max_usd=2.5"])

    built = authors.authors(settings.author, SpeakingProvider(""))

    assert isinstance(built[ArtifactKind.GRASP_STRATEGY], GepaStrategyAuthor)
    assert ArtifactKind.SKILL not in built
    assert authors.allowance(settings.author) == Allowance(episodes=12, usd=2.5)


def test_other_authors_may_run_no_episode() -> None:
    assert authors.allowance(compose_settings([]).author) == NOTHING
    assert NOTHING.episodes == 0


def test_limits_that_cannot_work_are_refused_together() -> None:
    with pytest.raises(SettingsError) as caught:
        compose_settings(["author=gepa", "author.max_episodes=4", "author.minibatch=11"])

    assert caught.value.problems == (
        "command line: author.max_episodes = 4: is too few to measure a single revision; use at "
        "least author.episodes_per_candidate = 10, or lower that",
        "command line: author.minibatch = 11: is a part of the episodes a revision is measured "
        "on; use at most author.episodes_per_candidate = 10",
    )


def test_a_folder_for_candidates_that_is_not_there_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    missing = tmp_path / "missing"

    with pytest.raises(SettingsError, match=r"author\.folder = .*missing: is no directory"):
        authors.check_author(compose_settings(["author=file", f"author.folder={missing}"]).author)

from __future__ import annotations

from pathlib import Path

import pytest

from openeta_exp.adapters.store.layout import ExperimentLayout


def test_everything_of_an_experiment_lies_below_its_own_folder(tmp_path: Path) -> None:
    layout = ExperimentLayout.below(tmp_path, "libero-grasp-v1")
    generation = layout.generation(7)
    phase = generation.phase("train")

    folder = tmp_path / "experiments" / "libero-grasp-v1"
    assert layout.journal == folder / "journal.sqlite"
    assert generation.record == folder / "generations/007/generation.json"
    assert generation.baseline.skills == folder / "generations/007/baseline_skills"
    assert phase.result == folder / "generations/007/train/result.json"
    assert phase.session("s-1") == folder / "generations/007/train/sessions/s-1"


@pytest.mark.parametrize("name", ["..", "../other", "a/b", ".hidden", "", "a" * 97, "a\nb"])
def test_a_name_that_would_leave_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    layout = ExperimentLayout.below(tmp_path, "fine")
    with pytest.raises(ValueError, match="cannot name a directory"):
        ExperimentLayout.below(tmp_path, name)
    with pytest.raises(ValueError, match="cannot name a directory"):
        layout.generation(0).phase("train").session(name)

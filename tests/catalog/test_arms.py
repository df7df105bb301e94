"""An arm is what its policy is, not what it is called or where it listens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openeta_exp.catalog.arms import PolicyArm, policy_arm
from openeta_exp.catalog.messages import PolicyDescription
from openeta_exp.errors import CatalogError
from openeta_exp.ports.policy import PolicyRecipe
from tests.catalog.catalogs import policy

_SERVER = "openeta_exp.adapters.policy.vla_eval_client:build"


def served(port: int, label: str = "a", **options: Any) -> PolicyArm:
    recipe = PolicyRecipe(factory=_SERVER, arguments={"url": f"ws://127.0.0.1:{port}"})
    described = PolicyDescription(identity={"model_server": "Pi0", **options.pop("report", {})})
    return policy_arm(label, recipe, described, **options)


def identity(arm: PolicyArm) -> str:
    return arm.arm.content_digest


def test_overwriting_weights_in_place_makes_another_arm(tmp_path: Path) -> None:
    weights = tmp_path / "checkpoint"
    weights.mkdir()
    (weights / "model.bin").write_bytes(b"one")
    before = served(1, weights=[weights])
    (weights / "model.bin").write_bytes(b"two")

    assert identity(served(1, weights=[weights])) != identity(before)


def test_label_and_address_are_no_identity_where_the_weights_are_known(tmp_path: Path) -> None:
    weights = tmp_path / "model.bin"
    weights.write_bytes(b"one")

    assert identity(served(1, "a", weights=[weights])) == identity(
        served(2, "b", weights=[weights])
    )
    assert identity(served(1, revision="v1")) != identity(served(1, revision="v2"))
    assert served(1, report={"weights_digest": "abc"}).finding is None


def test_a_server_that_is_known_by_its_address_only_is_pointed_out() -> None:
    first, second = served(1), served(2)

    assert identity(first) != identity(second)
    assert first.finding is not None
    assert "known by its address only" in first.finding.message


def test_an_in_process_policy_is_its_parameters_and_its_source(tmp_path: Path) -> None:
    module = tmp_path / "own_policy_module.py"
    module.write_text("def act(observation): return [0]\n", encoding="utf-8")

    def arm(**params: Any) -> PolicyArm:
        recipe = policy("act", module="own_policy_module", **params)
        return policy_arm("a", recipe, PolicyDescription(identity={}), search_path=[str(tmp_path)])

    before = arm()
    assert before.finding is not None, "nothing is known of the weights it may load"
    assert "policies.a.weights or policies.a.revision" in before.finding.message
    assert identity(arm(gain=2)) != identity(before)
    module.write_text("def act(observation): return [1]\n", encoding="utf-8")
    assert identity(arm()) != identity(before)


def in_process(**options: Any) -> PolicyArm:
    params = options.pop("params", {})
    return policy_arm("a", policy(**params), PolicyDescription(identity={}), **options)


@pytest.mark.parametrize("nested", [False, True])
def test_a_file_that_a_parameter_names_is_identity_by_its_content(
    tmp_path: Path, nested: bool
) -> None:
    file = tmp_path / "w.json"
    params = {"model": {"parts": [str(file)]}} if nested else {"weights": str(file)}
    file.write_text("1", encoding="utf-8")
    before = in_process(params=params)
    file.write_text("2", encoding="utf-8")
    other = in_process(params=params)
    file.write_text("1", encoding="utf-8")

    assert identity(other) != identity(before)
    assert identity(in_process(params=params)) == identity(before)
    assert before.finding is None


def test_a_folder_that_a_parameter_names_is_identity_by_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "model.bin"
    file.write_bytes(b"one")
    params = {"checkpoint": str(tmp_path)}
    before = in_process(params=params)
    file.write_bytes(b"two")

    assert identity(in_process(params=params)) != identity(before)
    assert before.finding is None
    monkeypatch.setattr("openeta_exp.catalog.arms._MOST_BYTES", 2)
    large = in_process(params=params)
    file.write_bytes(b"six")
    assert identity(in_process(params=params)) == identity(large)
    assert large.finding is not None
    assert "policies.a.params.checkpoint names a folder" in large.finding.message
    assert "policies.a.weights or policies.a.revision" in large.finding.message
    assert in_process(params=params, revision="v1").finding is None


def test_parameters_that_name_no_file_leave_the_identity_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params: dict[str, Any] = {"gain": 2, "camera": "front", "note": "x" * 5000, "url": "ws://h:1"}
    before = in_process(params=params)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "front").mkdir()
    (tmp_path / "front" / "picture.png").write_bytes(b"one")

    assert identity(in_process(params=params)) == identity(before)
    assert set(before.arm.settings) == {
        "factory",
        "arguments",
        "self_report",
        "weights",
        "revision",
        "source",
    }


def test_who_says_which_weights_there_are_or_that_there_are_none_is_not_suspected(
    tmp_path: Path,
) -> None:
    weights = tmp_path / "model.bin"
    weights.write_bytes(b"one")

    assert in_process().finding is not None
    assert in_process(weights=[weights]).finding is None
    assert in_process(revision="v1").finding is None
    assert in_process(scripted=True).finding is None


def test_weights_that_do_not_exist_are_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="does not exist"):
        served(1, weights=[tmp_path / "absent"])

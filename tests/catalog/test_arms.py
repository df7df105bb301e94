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
    assert before.finding is None
    assert identity(arm(gain=2)) != identity(before)
    module.write_text("def act(observation): return [1]\n", encoding="utf-8")
    assert identity(arm()) != identity(before)


def test_weights_that_do_not_exist_are_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="does not exist"):
        served(1, weights=[tmp_path / "absent"])

"""`command=compare`: which policy is better, where, how surely; and what ends how."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from openeta_exp.adapters.tracking.null_tracker import NullTracker
from openeta_exp.assembly import catalog_compare, execute
from openeta_exp.cli import guarded
from openeta_exp.composition import compose_settings
from openeta_exp.domain.event import ComparisonEnded, ComparisonPlanned, EpisodeStarted
from openeta_exp.domain.policy_comparison import Ending, Standing
from openeta_exp.statistics.intervals import wilson
from openeta_exp.wire.vla_eval import Frame
from tests.adapters.policy.hostile_server import Session, serving
from tests.catalog_cli.comparing import STRONG, WEAK, compare, toy_catalog


def test_a_better_policy_is_found_with_where_it_is_better(tmp_path: Path) -> None:
    toy_catalog(tmp_path)

    found = compare(tmp_path, *WEAK, *STRONG)

    assert (found.code, found.result.reason) == (0, Ending.NOT_WORSE)
    contrast = found.contrast
    assert contrast.standing is Standing.BETTER
    assert contrast.counts.pairs == contrast.scheduled == 24
    assert contrast.counts.candidate_only >= 20
    assert contrast.difference is not None
    assert contrast.difference.low > 0.5
    by_value = {(row.parameter, row.value): row.counts.pairs for row in contrast.parameters}
    assert by_value["x", -0.6] == 4
    assert by_value["y", 0.1] == 6
    (heat,) = contrast.heat_maps
    assert (len(heat.rows), len(heat.columns)) == (6, 4)
    assert len(contrast.flips) == contrast.counts.candidate_only
    page = (found.folder / "report.html").read_text(encoding="utf-8")
    assert "strong against weak" in page
    assert contrast.flips[0].episode_id in page
    planned = next(each for each in found.events if isinstance(each, ComparisonPlanned))
    ended = next(each for each in found.events if isinstance(each, ComparisonEnded))
    assert planned.gate == found.result.gate
    assert ended.verdict == contrast.better


def test_a_flipped_episode_can_be_run_again_by_the_command_it_comes_with(tmp_path: Path) -> None:
    toy_catalog(tmp_path)
    flip = compare(tmp_path, *WEAK, *STRONG).contrast.flips[0]
    python, module, name, *overrides = shlex.split(flip.replay)

    settings = compose_settings(
        [*overrides, f"output_root={tmp_path / 'outputs'}", "tracking=none"]
    )
    code = execute(settings)

    assert (python, module, name) == ("python", "-m", "openeta_exp")
    assert code == 0
    written = tmp_path / "outputs" / "experiments" / settings.experiment_id / "comparison"
    again = json.loads((written / "comparison.json").read_text(encoding="utf-8"))
    (contrast,) = again["contrasts"]
    assert contrast["standing"] == "inconclusive", "one pair proves nothing"
    assert [each["episode_id"] for each in contrast["flips"]] == [flip.episode_id]


def test_only_what_is_missing_is_run(tmp_path: Path) -> None:
    toy_catalog(tmp_path)
    part = compare(tmp_path, *WEAK, *STRONG, "gate=anytime", "catalog.tier=regression")
    whole = compare(tmp_path, *WEAK, *STRONG, "gate=anytime")
    again = compare(tmp_path, *WEAK, *STRONG, "gate=anytime")
    third = compare(
        tmp_path,
        *WEAK,
        *STRONG,
        "policy@third=tests.catalog.toy_policies:Homing",
        "third.params={gain: 4.0}",
        "gate=anytime",
    )

    assert 0 < part.episodes["weak"] < 24
    assert whole.episodes == {"weak": 24, "strong": 24}
    assert third.episodes == {"weak": 24, "strong": 24, "third": 24}
    assert [each.standing for each in third.result.contrasts] == [Standing.BETTER] * 2
    assert again.contrast == whole.contrast
    assert len({each.better.alpha for each in third.result.contrasts}) == 1


_FROM_FILE = """
import json

from tests.catalog.toy_policies import Homing


class FromFile(Homing):
    def __init__(self, weights):
        with open(weights) as file:
            super().__init__(**json.load(file))
"""


def test_weights_that_were_replaced_under_the_same_path_are_run_again(tmp_path: Path) -> None:
    catalog = toy_catalog(tmp_path)
    (catalog / "from_file_policy.py").write_text(_FROM_FILE, encoding="utf-8")
    weights = tmp_path / "w.json"
    read = ("policy@read=from_file_policy:FromFile", f"read.params.weights={weights}")
    weights.write_text('{"gain": 5.0}', encoding="utf-8")
    strong = compare(tmp_path, *WEAK, *read)
    weights.write_text('{"gain": 0.3}', encoding="utf-8")
    replaced = compare(tmp_path, *WEAK, *read)

    assert strong.contrast.standing is Standing.BETTER
    assert replaced.contrast.standing is not Standing.BETTER
    assert replaced.contrast.counts.candidate_only == 0
    assert replaced.episodes == {"weak": 24, "read": 24}


def test_a_regression_ends_with_4_and_says_so(tmp_path: Path) -> None:
    toy_catalog(tmp_path)

    found = compare(tmp_path, *STRONG, *WEAK)

    assert (found.code, found.result.reason) == (4, Ending.REGRESSED)
    assert found.contrast.standing is Standing.REGRESSED
    assert "worse beyond chance" in found.contrast.reasons[0]


@pytest.mark.parametrize(("required", "code"), [("false", 0), ("true", 4)])
def test_thin_data_never_passes_where_a_verdict_is_required(
    tmp_path: Path, required: str, code: int
) -> None:
    toy_catalog(tmp_path, scenarios={})

    found = compare(tmp_path, *WEAK, *STRONG, f"gate_required={required}")

    assert (found.code, found.result.reason) == (code, Ending.INCONCLUSIVE)
    assert found.contrast.counts.pairs == 6
    assert "needs 20 valid pairs, has 6" in found.contrast.reasons


def test_policies_that_do_alike_are_equivalent_within_a_margin(tmp_path: Path) -> None:
    toy_catalog(tmp_path)
    other = ("policy@other=tests.catalog.toy_policies:Homing", "other.params={gain: 4.5}")

    alike = compare(tmp_path, *STRONG, *other, "equivalence_margin=0.2", "gate_required=true")
    narrow = compare(tmp_path, *STRONG, *other, "equivalence_margin=0.01", "experiment_id=narrow")

    assert (alike.code, alike.contrast.standing) == (0, Standing.EQUIVALENT)
    assert narrow.contrast.standing is Standing.INCONCLUSIVE


def test_an_invalid_comparison_stops_before_its_first_episode(tmp_path: Path) -> None:
    toy_catalog(tmp_path, provider="Plain", scenarios={"params": {"cup_x": {"choices": [1, 2]}}})

    stopped = compare(tmp_path, *WEAK, *STRONG)

    assert (stopped.code, stopped.result.reason) == (4, Ending.INVALID)
    assert stopped.result.contrasts == ()
    assert not any(isinstance(each, EpisodeStarted) for each in stopped.events)
    said = " ".join(each.message for each in stopped.result.checks.invalid)
    assert "cup_x" in said


def test_an_override_is_stamped_into_the_result(tmp_path: Path) -> None:
    toy_catalog(tmp_path, provider="Plain", scenarios={"params": {"cup_x": {"choices": [1, 2]}}})

    found = compare(tmp_path, *WEAK, *STRONG, "catalog.allow_invalid=true")

    assert found.result.reason is Ending.INCONCLUSIVE
    assert found.result.invalid_overridden
    assert found.contrast.counts.pairs == 2
    assert "invalid_overridden" in {each.check for each in found.result.checks.problems}
    page = (found.folder / "report.html").read_text(encoding="utf-8")
    assert "the checks say that this comparison means nothing" in page


def test_one_policy_under_two_names_is_no_comparison(tmp_path: Path) -> None:
    toy_catalog(tmp_path)
    same = ("policy@same=tests.catalog.toy_policies:Homing", "same.params={gain: 5.0}")

    found = compare(tmp_path, *STRONG, *same)

    assert (found.code, found.result.reason) == (4, Ending.INVALID)
    said = [each.message for each in found.result.checks.invalid]
    assert any("they are one policy" in each for each in said)


@dataclass
class Moody:
    """A server that misbehaves at the start of every episode that begins at `y` = 0.2."""

    how: str
    is_well: bool = False
    has_begun: bool = False

    def __call__(self, session: Session, frame: Frame) -> bool:
        if frame.type == "episode_start":
            self.has_begun = False
        if frame.type != "observation":
            return False
        state = np.asarray(frame.payload["states"], dtype=np.float32)
        image = np.asarray(frame.payload["images"]["front"], dtype=np.float32)
        # A trace of the image, so that the policy does not look blind.
        actions = -5 * state + image[::2].mean() * 1e-4
        starts, self.has_begun = not self.has_begun, True
        if starts and not self.is_well and abs(state[1] - 0.2) < 1e-6:
            match self.how:
                case "dies":
                    session.connection.close_socket()
                case "stalls":
                    pass
                case "says NaN":
                    session.send("action", {"actions": actions * np.nan}, frame.seq)
                case _:
                    session.send("action", {"actions": np.zeros(3)}, frame.seq)
            return True
        session.send("action", {"actions": actions}, frame.seq)
        return True


@pytest.mark.parametrize("how", ["dies", "stalls", "says NaN", "says too much"])
def test_a_bad_server_leaves_a_partial_result_that_the_same_command_completes(
    tmp_path: Path, how: str
) -> None:
    toy_catalog(tmp_path)
    moody = Moody(how)

    with serving(moody) as (url, _):
        served = (
            f"policy@served={url}",
            "served.revision=v1",
            "served.connect_timeout_s=1",
            "served.act_timeout_s=0.5",
            "catalog.attempts=1",
        )
        partial = compare(tmp_path, *WEAK, *served)
        moody.is_well = True
        complete = compare(tmp_path, *WEAK, *served)

    assert (partial.code, partial.result.reason) == (3, Ending.PARTIAL)
    assert partial.contrast.missing == partial.contrast.counts.excluded == 6
    assert (complete.code, complete.contrast.missing) == (0, 0)
    assert complete.episodes["weak"] == 24, "the first policy is not run again"
    assert complete.episodes["served"] == 24 + 6


def test_repeats_of_a_scenario_are_one_observation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_catalog(tmp_path)

    found = compare(tmp_path, *WEAK, *STRONG, "catalog.repeats=2")

    assert found.contrast.counts.pairs == 48
    assert found.contrast.better.effect.pairs <= 24
    assert found.contrast.standing is Standing.BETTER
    assert found.contrast.difference is not None
    assert found.contrast.difference.method == "clustered"
    strong = found.result.policies[1]
    once = wilson(strong.successes // 2, 24)
    assert (strong.low, strong.high) == (once.low, once.high)
    counts_once = "A scenario that is run again counts once in the intervals of rates."
    assert counts_once in capsys.readouterr().out
    assert counts_once in (found.folder / "report.html").read_text(encoding="utf-8")


def test_a_gate_that_may_stop_early_leaves_out_what_cannot_matter(tmp_path: Path) -> None:
    toy_catalog(tmp_path)

    found = compare(tmp_path, *WEAK, *STRONG, "stop_early=true", "gate.n_min=8", "gate.n_max=24")

    assert found.code == 0
    assert found.contrast.standing is Standing.BETTER
    assert 8 <= found.episodes["strong"] < 24


@pytest.mark.parametrize("gate", ["fixed", "anytime", "no_regression"])
def test_every_gate_judges_a_catalog(tmp_path: Path, gate: str) -> None:
    toy_catalog(tmp_path)

    better = compare(tmp_path, *WEAK, *STRONG, f"gate={gate}")
    worse = compare(tmp_path, *STRONG, *WEAK, f"gate={gate}", "experiment_id=turned")

    assert better.code == 0
    assert better.contrast.standing in (Standing.BETTER, Standing.NOT_WORSE)
    assert (worse.code, worse.contrast.standing) == (4, Standing.REGRESSED)


def test_levels_of_a_perturbation_become_a_curve(tmp_path: Path) -> None:
    sweep = {
        "type": "scale_actuator",
        "target": "motor",
        "at_step": 0,
        "levels": [0.2, 1.0],
    }
    toy_catalog(
        tmp_path,
        scenarios={
            "params": {"x": {"range": [-0.6, 0.6], "steps": 4}, "y": {"choices": [0.1, 0.4]}},
            "perturbations": [sweep],
        },
    )

    found = compare(tmp_path, *WEAK, *STRONG)

    curves = {curve.policy: curve for curve in found.result.curves}
    assert [row.level for row in curves["strong"].levels] == [0.2, 1.0]
    assert curves["strong"].levels[0].successes < curves["strong"].levels[1].successes
    assert {flip.scenario["level"] for flip in found.contrast.flips} <= {0.2, 1.0}


def test_workers_have_ended_before_the_tracker_shows_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers: list[int] = []

    @contextmanager
    def watched(*_: object, **__: object) -> Iterator[NullTracker]:
        workers.append(len(psutil.Process().children()))
        yield NullTracker()
        workers.append(len(psutil.Process().children()))

    monkeypatch.setattr(catalog_compare, "open_tracker", watched)
    toy_catalog(tmp_path)

    compare(tmp_path, *WEAK, *STRONG)

    before, after = workers
    assert before - after == 1


def test_a_policy_that_cannot_be_built_is_bad_input_and_a_program_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_catalog(tmp_path)

    code = guarded(
        lambda: compare(tmp_path, *WEAK, "policy@b=no_such_module:Policy", "format=json").code
    )

    told = json.loads(capsys.readouterr().out)
    assert (code, told["exit_code"], told["reason"]) == (2, 2, "bad_input")
    assert "policies.b.target = 'no_such_module:Policy'" in told["problems"][0]


def test_an_adapter_that_does_not_exist_is_bad_input_that_names_scene_and_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = "tests.catalog.toy_bench:Reech"
    toy_catalog(tmp_path, scene={"external": {"provider": provider, "params": {}}})

    code = guarded(lambda: compare(tmp_path, *WEAK, *STRONG).code)

    assert code == 2
    assert capsys.readouterr().err == (
        "task reach on scene toy (external.provider = 'tests.catalog.toy_bench:Reech'): "
        "build_adapter: AttributeError: module 'tests.catalog.toy_bench' has no attribute "
        "'Reech'\n"
    )


def test_a_server_that_is_not_there_is_infrastructure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toy_catalog(tmp_path)
    absent = ("policy@b=ws://127.0.0.1:9", "b.connect_timeout_s=0.2", "b.revision=v1")

    code = guarded(lambda: compare(tmp_path, *WEAK, *absent, "format=json").code)

    told = json.loads(capsys.readouterr().out)
    assert (code, told["exit_code"], told["reason"]) == (3, 3, "infrastructure")
    assert told["code"] == "policy_unreachable"

"""An evaluation of sub-agents as one MLflow run."""

from __future__ import annotations

from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.adapters.tracking.mlflow_runs import MLFLOW_ERRORS, MlflowRuns
from openeta_exp.domain.subagent_eval import SubagentReport
from openeta_exp.errors import StoreError

RUN_NAME = "sub-agents"


def show_report(target: MlflowTarget, report: SubagentReport) -> str:
    """Log metrics and the whole report; gives the run's id.

    Raises:
        StoreError: The tracking server did not take it.
    """
    try:
        MlflowRuns(target)  # Makes the store and the experiment, if they are not there yet.
        client = MlflowClient(tracking_uri=target.uri)
        experiment = client.get_experiment_by_name(target.experiment_name)
        if experiment is None:
            raise MlflowException(f"there is no experiment {target.experiment_name!r}")
        run = client.create_run(
            experiment.experiment_id,
            start_time=int(report.created_at_s * 1000),
            run_name=RUN_NAME,
            tags={"kind": "subagent_eval", "scripted": str(report.scripted).lower()},
        )
        for name, value in _metrics(report).items():
            client.log_metric(run.info.run_id, name, value)
        client.log_param(run.info.run_id, "case_count", report.case_count)
        client.log_param(run.info.run_id, "repeats", report.repeats)
        client.log_text(run.info.run_id, report.model_dump_json(indent=2), "subagent_eval.json")
        client.set_terminated(run.info.run_id)
    except MLFLOW_ERRORS as error:
        raise StoreError(f"{target.uri}: the evaluation could not be tracked: {error}") from error
    return str(run.info.run_id)


def _metrics(report: SubagentReport) -> dict[str, float]:
    metrics = report.metrics
    found = {
        "pass_rate": metrics.pass_rate,
        "critical_false_approval_count": float(metrics.critical_false_approval_count),
        "unsupported_guidance_answer_count": float(metrics.unsupported_guidance_answer_count),
        "unsafe_draft_count": float(metrics.unsafe_draft_count),
        "error_count": float(metrics.error_count),
    }
    for role, each in metrics.by_role.items():
        found[f"{role.value}.pass_rate"] = each.pass_rate
        found[f"{role.value}.danger_upper_95"] = each.danger.upper_95
    return found

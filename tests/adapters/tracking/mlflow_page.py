"""What MLflow has of an experiment, read back through its own client."""

from __future__ import annotations

from pathlib import Path

from mlflow.entities import Run
from mlflow.tracking import MlflowClient

from openeta_exp.adapters.tracking.messages import MlflowTarget


class Page:
    """One experiment."""

    def __init__(self, target: MlflowTarget) -> None:
        self._client = MlflowClient(tracking_uri=target.uri)
        self._name = target.experiment_name

    def runs(self) -> list[Run]:
        experiment = self._client.get_experiment_by_name(self._name)
        assert experiment is not None
        return list(self._client.search_runs([experiment.experiment_id], order_by=["start_time"]))

    def history(self, key: str) -> list[tuple[int, float]]:
        (run,) = self.runs()
        found = self._client.get_metric_history(run.info.run_id, key)
        return sorted((each.step, each.value) for each in found)

    def text(self, name: str) -> str:
        (run,) = self.runs()
        return Path(self._client.download_artifacts(run.info.run_id, name)).read_text("utf-8")

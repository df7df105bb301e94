"""Runs in MLflow, found by tag and written so that writing them again changes nothing."""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from openeta_exp.adapters.tracking.library import Library
from openeta_exp.adapters.tracking.messages import MlflowTarget
from openeta_exp.adapters.tracking.run_view import Point

MLFLOW_ERRORS = (MlflowException, SQLAlchemyError, sqlite3.Error, OSError)
"""What a store that is away, slow, locked or full may raise; those of `requests` are OSErrors."""

_POINTS_PER_CALL = 900
"""MLflow's REST interface takes 1000 metrics and 100 parameters at a time."""
_PARAMS_PER_CALL = 100
_SQLITE = "sqlite:///"


class MlflowRuns:
    """One MLflow experiment."""

    def __init__(self, target: MlflowTarget) -> None:
        """Connect; a store of its own is made first, if it is not there yet."""
        self._target = target
        with _prepared(target.uri):
            self._client = MlflowClient(tracking_uri=target.uri)
            self._experiment_id = self._find_or_make_experiment()
        self.library = Library(self._client, mlflow_experiment_id=self._experiment_id)

    @property
    def experiment_id(self) -> str:
        """As MLflow numbers it."""
        return self._experiment_id

    def find_or_create(
        self, identity: Mapping[str, str], *, name: str, started_ms: int
    ) -> tuple[str, Mapping[str, str]]:
        """The run with these tags, and all the tags it has."""
        query = " and ".join(f"tags.`{key}` = '{_quoted(identity[key])}'" for key in identity)
        found = self._client.search_runs([self._experiment_id], query, max_results=1)
        run = (
            found[0]
            if found
            else self._client.create_run(
                self._experiment_id, start_time=started_ms, tags=dict(identity), run_name=name
            )
        )
        return run.info.run_id, run.data.tags

    def open(self, run_id: str, *, params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Mark a run as running. Parameters that it already has are kept: MLflow forbids change."""
        known = self._client.get_run(run_id).data.params
        new = [Param(key, value) for key, value in params.items() if key not in known]
        for at in range(0, len(new), _PARAMS_PER_CALL):
            self._client.log_batch(run_id, params=new[at : at + _PARAMS_PER_CALL])
        self.tag(run_id, tags)
        self._client.update_run(run_id, status="RUNNING")

    def plot(self, run_id: str, points: Sequence[Point]) -> None:
        """Add metric values; a point that is already there is not doubled."""
        for at in range(0, len(points), _POINTS_PER_CALL):
            metrics = [
                Metric(point.key, point.value, point.at_ms, point.step)
                for point in points[at : at + _POINTS_PER_CALL]
            ]
            self._client.log_batch(run_id, metrics=metrics)

    def tag(self, run_id: str, tags: Mapping[str, str]) -> None:
        self._client.log_batch(run_id, tags=[RunTag(key, value) for key, value in tags.items()])

    def attach(self, run_id: str, texts: Mapping[str, str]) -> None:
        """Write text artifacts, replacing those of the same name."""
        for name, text in texts.items():
            self._client.log_text(run_id, text, name)

    def end(self, run_id: str, *, interrupted: bool, at_ms: int) -> None:
        status = "KILLED" if interrupted else "FINISHED"
        self._client.set_terminated(run_id, status=status, end_time=at_ms)

    def place(self, run_id: str) -> str:
        return place(self._target.uri, experiment_id=self._experiment_id, run_id=run_id)

    def page(self, path: str) -> str:
        """The address of a page by what comes after its `#`."""
        return page(self._target.uri, path)

    def _find_or_make_experiment(self) -> str:
        name, root = self._target.experiment_name, self._target.artifact_root
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        try:
            return str(
                self._client.create_experiment(
                    name,
                    artifact_location=None if root is None else (root / name).as_uri(),
                    # Or the web page asks what kind of experiment this is.
                    tags={"mlflow.experimentKind": "custom_model_development"},
                )
            )
        except MlflowException:
            # Somebody else may have made it in between.
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)


def place(uri: str, *, experiment_id: str, run_id: str) -> str:
    """The page of a run, or store and id where there is no server to have one.

    Whatever logs in for us is not shown.
    """
    if urlsplit(uri).scheme not in ("http", "https"):
        return f"{uri} (run {run_id})"
    return page(uri, f"/experiments/{experiment_id}/runs/{run_id}")


def page(uri: str, path: str) -> str:
    """A page of the server, without what logs in for us; only `#path` where there is no server."""
    address = urlsplit(uri)
    if address.scheme not in ("http", "https"):
        return f"#{path}"
    host = address.netloc.rpartition("@")[2]
    return f"{address.scheme}://{host}{address.path.rstrip('/')}/#{path}"


@contextlib.contextmanager
def _prepared(uri: str) -> Iterator[None]:
    """A database file in WAL mode, with one process at a time making its tables.

    Without WAL, whoever looks at the page and whoever writes wait for each other.
    """
    if not uri.startswith(_SQLITE):
        yield
        return
    path = Path(uri.removeprefix(_SQLITE))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = sqlite3.connect(path, timeout=5)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        yield


def _quoted(value: str) -> str:
    if "'" in value:
        raise ValueError(f"{value!r} cannot be searched for")
    return value

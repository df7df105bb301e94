"""The journal in one SQLite file: the truth about what happened.

Durability. The file is in WAL mode with `synchronous=NORMAL`: a commit is in the kernel's hands
when `append` returns, so it survives `kill -9`, an exception and a full disk later on, and the
file is never left half-written. Only a power cut may take the last events with it, and never
leaves a gap: what is lost is a tail. `BatchEnded` is followed by a checkpoint, which puts
everything up to it on the platter. Paying an fsync for each event instead (`FULL`) would block
the event loop of every running episode for as long as the disk takes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import assert_never
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from openeta_exp.adapters.store import spending_ledger
from openeta_exp.adapters.store.writer_lock import WriterLock
from openeta_exp.domain.episode import EpisodeOutcome
from openeta_exp.domain.event import (
    AuthorAnswered,
    BatchEnded,
    BatchStarted,
    CandidateProposed,
    CandidateReviewed,
    ComparisonEnded,
    ComparisonPlanned,
    EpisodeEnded,
    EpisodeStarted,
    Event,
    GenerationEnded,
    GenerationStarted,
    Promoted,
    Published,
)
from openeta_exp.domain.identity import Digest
from openeta_exp.errors import SettingsError, StoreError

SCHEMA_VERSION = 1
_APPLICATION_ID = 0x0E7A_0E7A
_SCHEMA = f"""
BEGIN;
CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    batch_id TEXT NOT NULL,
    arm_digest TEXT,
    spec_digest TEXT,
    repeat INTEGER,
    has_verdict INTEGER,
    at_s REAL NOT NULL,
    event TEXT NOT NULL
) STRICT;
CREATE INDEX verdicts ON events (arm_digest, spec_digest, repeat, seq) WHERE has_verdict = 1;
CREATE INDEX batches ON events (batch_id, seq);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""
# SQLite documents that `event` then comes from the row with the largest `seq`.
_VERDICTS = """
SELECT max(seq), event FROM events
WHERE has_verdict = 1 AND arm_digest = ?
GROUP BY spec_digest, repeat ORDER BY max(seq)
"""
_ATTEMPTS = """
SELECT seq, event FROM events
WHERE batch_id = ? AND spec_digest IS NOT NULL ORDER BY seq
"""
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)


class SqliteJournal:
    """One journal file, used by one thread at a time."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, making it first if it is to be written.

        Reading is possible at any time, also while another process writes.

        Raises:
            SettingsError: Another process writes it, it is to be read and is not there, or a
                newer version of this package made it.
            StoreError: It cannot be opened or is not a journal.
        """
        self._path = path
        self._lock = None if read_only else WriterLock(path.with_name(f"{path.name}.lock"))
        try:
            self._connection = self._open_reader() if read_only else self._open_writer()
        except BaseException:
            self._release()
            raise
        self.spending = spending_ledger.SqliteLedger(self._connection, self._translated)

    def append(self, event: Event) -> int:
        kind, batch_id, at_s, verdict = _columns(event)
        with self._translated("write"):
            cursor = self._connection.execute(
                "INSERT INTO events (kind, batch_id, at_s, event, arm_digest, spec_digest, repeat,"
                " has_verdict) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (kind, batch_id, at_s, event.to_json(), *verdict),
            )
            if isinstance(event, BatchEnded):
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        assert cursor.lastrowid is not None, "SQLite numbers every inserted row"
        return cursor.lastrowid

    def events(self, *, after: int = 0) -> Iterator[tuple[int, Event]]:
        with self._translated("read"):
            rows = self._connection.execute(
                "SELECT seq, event FROM events WHERE seq > ? ORDER BY seq", (after,)
            )
            for seq, text in rows:
                yield seq, self._parse(seq, text)

    def outcomes(self, arm: Digest) -> Mapping[tuple[Digest, int], EpisodeOutcome]:
        found: dict[tuple[Digest, int], EpisodeOutcome] = {}
        with self._translated("read"):
            for seq, text in self._connection.execute(_VERDICTS, (arm,)):
                event = self._parse(seq, text)
                assert isinstance(event, EpisodeEnded), "only these have a verdict"
                found[event.outcome.spec_digest, event.outcome.repeat] = event.outcome
        return found

    def attempts(self, batch_id: str) -> Mapping[tuple[Digest, int], Sequence[EpisodeOutcome]]:
        found: dict[tuple[Digest, int], list[EpisodeOutcome]] = {}
        with self._translated("read"):
            for seq, text in self._connection.execute(_ATTEMPTS, (batch_id,)):
                event = self._parse(seq, text)
                assert isinstance(event, EpisodeEnded), "only these are about an episode's end"
                key = event.outcome.spec_digest, event.outcome.repeat
                found.setdefault(key, []).append(event.outcome)
        return found

    def close(self) -> None:
        """Give file and lock back. May be called again."""
        try:
            with self._translated("close"):
                self._connection.close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _open_writer(self) -> sqlite3.Connection:
        with self._translated("open"):
            connection = sqlite3.connect(self._path, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                if _is_empty(connection):
                    connection.executescript(_SCHEMA)
                self._check_schema(connection)
                connection.execute(spending_ledger.SCHEMA)
            except BaseException:
                connection.close()
                raise
        return connection

    def _open_reader(self) -> sqlite3.Connection:
        if not self._path.is_file():
            raise SettingsError(
                f"{self._path}: there is no journal; check experiment_id and output_root"
            )
        with self._translated("open"):
            connection = self._connect_reader()
            try:
                self._check_schema(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect_reader(self) -> sqlite3.Connection:
        address = f"file:{quote(str(self._path))}?mode=ro"
        connection = sqlite3.connect(address, uri=True, isolation_level=None)
        try:
            connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError:
            connection.close()
            if self._path.with_name(f"{self._path.name}-wal").exists():
                raise
            # A finished journal in a folder that may not be written has nothing to share.
            return sqlite3.connect(f"{address}&immutable=1", uri=True, isolation_level=None)
        return connection

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION_ID:
            raise StoreError(f"{self._path}: is an SQLite file, but not a journal")
        if version > SCHEMA_VERSION:
            raise SettingsError(
                f"{self._path}: has journal format {version} and this openeta_exp knows only up to "
                f"{SCHEMA_VERSION}; use the version that wrote it, or a newer one"
            )

    def _parse(self, seq: int, text: str) -> Event:
        try:
            return _EVENT.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise StoreError(
                f"{self._path}: event {seq} cannot be read: {where}: {first['msg']}"
            ) from error

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # misuse by this package, not a fault of the disk
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self._path}: cannot {doing} the journal: {error}") from error


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None


_Verdict = tuple[str | None, str | None, int | None, bool | None]


def _columns(event: Event) -> tuple[str, str, float, _Verdict]:
    """What a fact is found by: kind, batch, time; arm, episode, repeat, whether it counts."""
    verdict: _Verdict = (None, None, None, None)
    match event:
        case BatchStarted():
            verdict = (event.arm.content_digest, None, None, None)
        case EpisodeEnded(outcome=outcome):
            verdict = (
                outcome.arm_digest,
                outcome.spec_digest,
                outcome.repeat,
                outcome.kind == "result",
            )
        case EpisodeStarted() | BatchEnded():
            pass
        case (
            GenerationStarted()
            | AuthorAnswered()
            | CandidateProposed()
            | CandidateReviewed()
            | ComparisonPlanned()
            | ComparisonEnded()
            | Promoted()
            | Published()
            | GenerationEnded()
        ):
            return event.kind, "", event.at_s, verdict
        case _:
            assert_never(event)
    return event.kind, event.batch_id, event.at_s, verdict

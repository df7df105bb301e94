from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from openeta_exp.adapters.store.sqlite_journal import SCHEMA_VERSION, SqliteJournal
from openeta_exp.errors import SettingsError, StoreError
from tests.batches import arm, batch_ended, ended, manifest, spec, started, story, won


def script(body: str, *arguments: object) -> subprocess.Popen[str]:
    """A second process. Tests wait for what it prints, never for time to pass."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(body), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


HOLD = """
    import sys
    from pathlib import Path
    from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
    from tests.batches import ended, manifest, spec, started, won

    journal = SqliteJournal(Path(sys.argv[1]))
    journal.append(started(manifest(5)))
    for index in range(3):
        journal.append(ended(won(spec(index))))
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_finished_episodes_survive_a_kill_and_the_next_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with script(HOLD, path) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()

    reader = SqliteJournal(path, read_only=True)
    assert len(reader.outcomes(arm().content_digest)) == 3
    reader.close()

    journal = SqliteJournal(path)
    assert journal.append(ended(won(spec(3)))) == 5
    assert len(journal.outcomes(arm().content_digest)) == 4
    journal.close()


def test_a_second_writer_is_refused_by_the_number_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with script(HOLD, path) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()

        with pytest.raises(SettingsError, match=rf"process {writer.pid} is writing"):
            SqliteJournal(path)
        # Looking is allowed while it runs.
        reader = SqliteJournal(path, read_only=True)
        assert [seq for seq, _ in reader.events()] == [1, 2, 3, 4]
        reader.close()

        writer.kill()


def test_two_runs_that_start_together_never_both_write(tmp_path: Path) -> None:
    contend = """
        import sys
        from pathlib import Path
        from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
        from openeta_exp.errors import SettingsError

        try:
            journal = SqliteJournal(Path(sys.argv[1]))
        except SettingsError:
            print("refused", flush=True)
        else:
            print("writes", flush=True)
            sys.stdin.read()
    """
    writers = [script(contend, tmp_path / "journal.sqlite") for _ in range(3)]
    said = [writer.stdout.readline().strip() for writer in writers if writer.stdout]
    for writer in writers:
        writer.communicate()

    assert sorted(said) == ["refused", "refused", "writes"]


def test_a_journal_can_be_opened_again_after_it_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    for number in range(1, 4):
        journal = SqliteJournal(path)
        assert journal.append(ended(won(spec(number)))) == number
        journal.close()
        journal.close()


def test_a_finished_journal_can_be_read_where_nothing_may_be_written() -> None:
    count = """
        import os, sys
        from pathlib import Path
        from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
        from tests.batches import arm

        if os.geteuid() == 0:
            os.setuid(65534)  # the superuser may write anywhere
        journal = SqliteJournal(Path(sys.argv[1]), read_only=True)
        print(len(list(journal.events())))
        journal.close()
    """
    # Not `tmp_path`: another user may not enter it.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "journal.sqlite"
        journal = SqliteJournal(path)
        for fact in story(manifest(1), [won(spec(0))]):
            journal.append(fact)
        journal.close()
        folder.chmod(0o555)
        reader = script(count, path)
        said, _ = reader.communicate()
        folder.chmod(0o755)

    assert said == "4\n"


def test_a_journal_that_is_not_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no journal"):
        SqliteJournal(tmp_path / "none.sqlite", read_only=True)
    assert not (tmp_path / "none.sqlite").exists()


def test_a_journal_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    SqliteJournal(path).close()
    changed = sqlite3.connect(path)
    changed.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    changed.close()

    for read_only in (True, False):
        with pytest.raises(SettingsError, match="use the version that wrote it"):
            SqliteJournal(path, read_only=read_only)


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    noise = tmp_path / "noise.sqlite"
    noise.write_bytes(b"not a database" * 100)
    foreign = tmp_path / "foreign.sqlite"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE runs (id)")
    connection.close()

    with pytest.raises(StoreError, match="not a database"):
        SqliteJournal(noise)
    with pytest.raises(StoreError, match="not a journal"):
        SqliteJournal(foreign)


def test_a_damaged_file_is_reported_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    journal.append(started(manifest(200)))
    for index in range(200):
        journal.append(ended(won(spec(index))))
    journal.close()
    content = bytearray(path.read_bytes())
    content[4096 * 2 : -4096] = b"\xa5" * (len(content) - 4096 * 3)
    path.write_bytes(content)

    damaged = SqliteJournal(path, read_only=True)
    with pytest.raises(StoreError, match="cannot read the journal: database disk image"):
        list(damaged.events())
    damaged.close()


def test_a_fact_of_an_unknown_kind_is_named_and_not_skipped(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    journal.append(started(manifest(1)))
    journal.append(batch_ended())
    journal.close()
    changed = sqlite3.connect(path)
    changed.execute("""UPDATE events SET event = '{"kind": "later"}' WHERE seq = 2""")
    changed.commit()
    changed.close()

    journal = SqliteJournal(path, read_only=True)
    facts = journal.events()
    assert next(facts)[0] == 1
    with pytest.raises(StoreError, match="event 2 cannot be read"):
        next(facts)
    journal.close()


def test_a_full_disk_loses_the_fact_that_did_not_fit_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    # A quota on pages is how SQLite itself says that the disk is full.
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages + 40}")

    def fill() -> None:
        for index in range(1000):
            journal.append(ended(won(spec(index))))

    with pytest.raises(StoreError, match="disk is full"):
        fill()
    written = len(list(journal.events()))
    assert 1 < written < 1000

    journal._connection.execute("PRAGMA max_page_count = 1000000")
    assert journal.append(ended(won(spec(0)))) == written + 1
    journal.close()


def test_ten_thousand_outcomes_are_served_in_two_seconds(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    episodes = [spec(index) for index in range(10_000)]
    journal = SqliteJournal(path)
    for each in episodes:
        journal.append(ended(won(each)))
    journal.close()

    before_s = time.process_time()
    journal = SqliteJournal(path)
    outcomes = journal.outcomes(arm().content_digest)
    took_s = time.process_time() - before_s
    journal.close()

    assert len(outcomes) == len(episodes)
    assert took_s < 2.0

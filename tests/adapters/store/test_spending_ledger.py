"""What every account of model calls promises, whichever keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openeta_exp.adapters.store.spending_ledger import MemoryLedger
from openeta_exp.adapters.store.sqlite_journal import SqliteJournal
from openeta_exp.domain.model import ModelRole
from openeta_exp.domain.money import Charge, Spent, Tokens
from openeta_exp.ports.spending import SpendingLedger

PLANNER = ModelRole.PLANNER


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SpendingLedger]:
    if request.param == "memory":
        yield MemoryLedger()
        return
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    yield journal.spending
    journal.close()


def charge(
    *, generation: int = 0, role: ModelRole = PLANNER, estimated: int = 1000, written: int = 50
) -> Charge:
    return Charge(
        generation=generation, role=role, estimated=estimated, most=Tokens(2 * estimated, written)
    )


def test_what_was_never_settled_counts_in_full(ledger: SpendingLedger) -> None:
    ledger.put_down(charge())
    ledger.settle(ledger.put_down(charge()), Tokens(1200, 7))

    assert list(ledger.spent()) == [
        Spent(generation=0, role=PLANNER, settled=False, calls=1, tokens=Tokens(2000, 50)),
        Spent(
            generation=0, role=PLANNER, settled=True, calls=1, tokens=Tokens(1200, 7), margin=1.2
        ),
    ]


def test_an_attempt_that_was_not_charged_leaves_nothing(ledger: SpendingLedger) -> None:
    ledger.settle(ledger.put_down(charge()), Tokens())

    assert list(ledger.spent()) == []


def test_generations_and_roles_are_told_apart(ledger: SpendingLedger) -> None:
    for generation, role in ((0, PLANNER), (1, PLANNER), (1, ModelRole.GUIDANCE), (1, PLANNER)):
        number = ledger.put_down(charge(generation=generation, role=role))
        ledger.settle(number, Tokens(900, 10))

    found = {(row.generation, row.role): (row.calls, row.tokens) for row in ledger.spent()}
    assert found == {
        (0, PLANNER): (1, Tokens(900, 10)),
        (1, PLANNER): (2, Tokens(1800, 20)),
        (1, ModelRole.GUIDANCE): (1, Tokens(900, 10)),
    }


def test_the_largest_error_of_an_estimate_is_kept_and_short_prompts_say_nothing(
    ledger: SpendingLedger,
) -> None:
    for estimated, read in ((1000, 1100), (1000, 1500), (10, 90)):
        ledger.settle(ledger.put_down(charge(estimated=estimated)), Tokens(read, 1))

    (row,) = ledger.spent()
    assert row.margin == 1.5


def test_the_account_survives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    journal.spending.put_down(charge())
    journal.spending.settle(journal.spending.put_down(charge()), Tokens(1, 2))
    before = journal.spending.spent()
    journal.close()

    again = SqliteJournal(path, read_only=True)

    assert again.spending.spent() == before
    again.close()

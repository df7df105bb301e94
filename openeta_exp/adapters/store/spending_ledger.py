"""What model calls cost, in a table next to the journal's facts."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from openeta_exp.domain.model import ModelRole
from openeta_exp.domain.money import LEAST_TELLING, Charge, Spent, Tokens

SCHEMA = """
CREATE TABLE IF NOT EXISTS model_calls (
    number INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL,
    role TEXT NOT NULL,
    estimated INTEGER NOT NULL,
    read INTEGER NOT NULL,
    written INTEGER NOT NULL,
    settled INTEGER NOT NULL DEFAULT 0
) STRICT
"""
_SPENT = f"""
SELECT generation, role, settled, count(*), sum(read), sum(written),
    max(CASE WHEN settled AND estimated >= {LEAST_TELLING} THEN 1.0 * read / estimated ELSE 0 END)
FROM model_calls GROUP BY generation, role, settled ORDER BY generation, role, settled
"""


class SqliteLedger:
    """See `ports.spending.SpendingLedger`. Shares the journal's file, connection and lock."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        translated: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        """
        Args:
            translated: Makes errors of the database those of the store; takes what was done.
        """
        self._connection = connection
        self._translated = translated

    def put_down(self, charge: Charge) -> int:
        with self._translated("write"):
            cursor = self._connection.execute(
                "INSERT INTO model_calls (generation, role, estimated, read, written)"
                " VALUES (?, ?, ?, ?, ?)",
                (
                    charge.generation,
                    charge.role.value,
                    charge.estimated,
                    charge.most.read,
                    charge.most.written,
                ),
            )
        assert cursor.lastrowid is not None, "SQLite numbers every inserted row"
        return cursor.lastrowid

    def settle(self, number: int, tokens: Tokens) -> None:
        with self._translated("write"):
            if tokens.total == 0:
                self._connection.execute("DELETE FROM model_calls WHERE number = ?", (number,))
                return
            self._connection.execute(
                "UPDATE model_calls SET read = ?, written = ?, settled = 1 WHERE number = ?",
                (tokens.read, tokens.written, number),
            )

    def spent(self) -> Sequence[Spent]:
        with self._translated("read"):
            known = self._connection.execute(
                "SELECT 1 FROM sqlite_schema WHERE name = 'model_calls'"
            ).fetchone()
            # A journal that is only read may be older than its account.
            rows = self._connection.execute(_SPENT).fetchall() if known else []
        return tuple(
            Spent(
                generation=generation,
                role=ModelRole(role),
                settled=bool(settled),
                calls=calls,
                tokens=Tokens(read, written),
                margin=margin,
            )
            for generation, role, settled, calls, read, written, margin in rows
        )


class MemoryLedger:
    """See `ports.spending.SpendingLedger`. Forgets with the process: for checks."""

    def __init__(self) -> None:
        self._open: dict[int, Charge] = {}
        self._settled: dict[int, tuple[Charge, Tokens]] = {}
        self._numbers = 0

    def put_down(self, charge: Charge) -> int:
        self._numbers += 1
        self._open[self._numbers] = charge
        return self._numbers

    def settle(self, number: int, tokens: Tokens) -> None:
        charge = self._open.pop(number)
        if tokens.total:
            self._settled[number] = (charge, tokens)

    def spent(self) -> Sequence[Spent]:
        rows = [
            *((False, charge, charge.most) for charge in self._open.values()),
            *((True, charge, tokens) for charge, tokens in self._settled.values()),
        ]
        groups: dict[tuple[int, ModelRole, bool], list[tuple[Charge, Tokens]]] = {}
        for settled, charge, tokens in rows:
            key = charge.generation, charge.role, settled
            groups.setdefault(key, []).append((charge, tokens))
        return tuple(
            Spent(
                generation=generation,
                role=role,
                settled=settled,
                calls=len(each),
                tokens=sum((tokens for _, tokens in each), Tokens()),
                margin=max(
                    (
                        tokens.read / charge.estimated
                        for charge, tokens in each
                        if settled and charge.estimated >= LEAST_TELLING
                    ),
                    default=0.0,
                ),
            )
            for (generation, role, settled), each in sorted(groups.items())
        )

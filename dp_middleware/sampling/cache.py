"""Cached rows of all channels of a process, bounded in total.

The last integer of each output is held whole, so that every draw from a row is decided by one
table: two that are not bit for bit the same must never share the draws of a token. Where the upper
half of an integer of 128 bits is that of some last one, the table itself, which is handed out,
decides.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Hashable
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dp_middleware import _forks
from dp_middleware.sampling.memory import Memory
from dp_middleware.sampling.tables import (
    ABSENT,
    UNIT,
    Ids,
    Numbers,
    Table,
    Words,
    search,
    units_of,
    write_guide,
)


class _Row(NamedTuple):
    """Where a row lies: its units, how many outputs it has, and their kind."""

    first: int
    end: int
    outputs: int
    sparse: bool
    wide: bool


class _Index:
    """Which rows of one channel are held. Some may have fewer outputs, or more bits, than others.

    Beside the memory of the rows it takes 8 bytes for each id of the vocabulary.

    Attributes:
        rows: By id.
        units: The first unit of each row, for the search.
        sparse: Ids of outputs are held: some row has not all V.
        wide: Lower halves are held: some row has 128 bits.
    """

    def __init__(self) -> None:
        self.clear()
        self.sparse = self.wide = False

    def clear(self) -> None:
        self.rows: dict[int, _Row] = {}
        self.units = Numbers()

    def drop(self, number: int) -> None:
        del self.rows[number]
        self.units.set(number, ABSENT)


class Arena:
    """Memory for the rows of channels: a ring in which the oldest rows make room for new ones.

    Rows of a channel that nobody has any more go at once, and their memory with them.

    Args:
        capacity: Bytes of all rows together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._channels: weakref.WeakValueDictionary[Hashable, Channel] = (
            weakref.WeakValueDictionary()
        )
        self.after_fork()
        _forks.renew(self)

    def after_fork(self) -> None:
        """Without rows: a fork may have come while they were written."""
        self.lock = Lock()
        self._left: deque[_Index] = deque()  # of channels that are gone
        self._empty()

    def _empty(self) -> None:
        self.memory = Memory(0)
        self._order: deque[tuple[_Index, int, _Row]] = deque()  # the oldest first
        self._head = 0
        self._sparse = self._wide = False  # whether some channel is

    def channel(self, key: Hashable) -> Channel:
        """The rows under a key, which all who ask for it share."""
        with self.lock:
            found = self._channels.get(key)
            if found is None:
                found = self._channels[key] = Channel(self)
            return found

    @property
    def held(self) -> int:
        """Bytes of the rows that are held."""
        with self.lock:
            self._sweep()
            return sum(
                (row.end - row.first) * Memory.unit_bytes(sparse=index.sparse, wide=index.wide)
                for index, number, row in self._order
                if _is(index, number, row)
            )

    def store(self, index: _Index, number: int, table: Table) -> None:
        """Hold a row, unless it is held already or larger than all memory. With the lock."""
        self._sweep()
        if number in index.rows:
            return
        self._admit(index, sparse=table.support is not None, wide=table.low is not None)
        outputs = len(table.lasts)
        units = units_of(outputs)
        if units > self._limit or not self._reserved():
            return
        row = self._place(units, outputs, table)
        cells, memory = slice(row.first * UNIT, row.first * UNIT + outputs), self.memory
        memory.lasts[cells] = table.lasts
        if index.sparse:
            memory.outputs[cells] = np.arange(outputs) if table.support is None else table.support
        if table.low is not None:
            memory.low[cells] = table.low
        write_guide(memory.guide[row.first : row.end], table.lasts)
        index.rows[number] = row
        index.units.set(number, row.first)
        self._order.append((index, number, row))

    def _reserved(self) -> bool:
        """Have addresses for all rows; a system that has none for so many gets fewer."""
        while not self.memory and self._limit:
            try:
                self.memory = Memory(self._capacity // Memory.unit_bytes(sparse=False, wide=False))
            except (OSError, OverflowError):
                self._capacity //= 2
        return bool(self.memory)

    def _place(self, units: int, outputs: int, table: Table) -> _Row:
        """Free units side by side; rows that lie there are given up."""
        if self._head + units > self._limit:
            self._give_up(self._head, len(self.memory))
            self._head = 0
        first, self._head = self._head, self._head + units
        self._give_up(first, self._head)
        return _Row(first, self._head, outputs, table.support is not None, table.low is not None)

    def _give_up(self, start: int, end: int) -> None:
        """Forget the rows that start between two units; they are the oldest."""
        while self._order:
            index, number, row = self._order[0]
            if _is(index, number, row):
                if not start <= row.first < end:
                    return
                index.drop(number)
            self._order.popleft()

    def _admit(self, index: _Index, *, sparse: bool, wide: bool) -> None:
        """Let a row of this kind into a channel, and make all rows leave room for its kind."""
        sparse, wide = sparse or index.sparse, wide or index.wide
        if (sparse, wide) != (index.sparse, index.wide):
            self._forget(index)
            index.sparse, index.wide = sparse, wide
        if sparse <= self._sparse and wide <= self._wide:
            return
        before = self._limit
        self._sparse, self._wide = sparse or self._sparse, wide or self._wide
        for other, number, row in self._order:
            if _is(other, number, row) and row.end > self._limit:
                other.drop(number)
        self.memory.give_back(self._limit, before)

    def leave(self, index: _Index) -> None:
        """Give back the memory of a channel that is gone, now or before the next row is stored.

        Garbage is collected at any moment, also while this thread has the lock.
        """
        self._left.append(index)
        if self.lock.acquire(blocking=False):
            try:
                self._sweep()
            finally:
                self.lock.release()

    def _sweep(self) -> None:
        while self._left:
            self._forget(self._left.popleft())

    def _forget(self, index: _Index) -> None:
        """Give up the rows of a channel."""
        first = end = 0
        for row in sorted(index.rows.values()):
            if row.first > end:
                self.memory.give_back(first, end)
                first = row.first
            end = row.end
        self.memory.give_back(first, end)
        index.clear()
        self._order = deque(entry for entry in self._order if _is(*entry))
        self._sparse = any(other.sparse for other, *_ in self._order)
        self._wide = any(other.wide for other, *_ in self._order)
        self.memory.give_back_unused(sparse=self._sparse, wide=self._wide)
        if not self._order:
            self._empty()

    @property
    def _limit(self) -> int:
        """Number of units that the capacity allows."""
        return self._capacity // Memory.unit_bytes(sparse=self._sparse, wide=self._wide)


def _is(index: _Index, number: int, row: _Row) -> bool:
    """Whether a row is still held."""
    return index.rows.get(number) is row


class Channel:
    """The cached rows of one channel, by id; its memory goes back when nobody has it any more.

    Args:
        arena: Where the rows are.
    """

    def __init__(self, arena: Arena) -> None:
        self._arena, self._index = arena, _Index()
        weakref.finalize(self, arena.leave, self._index).atexit = False
        _forks.renew(self)

    def after_fork(self) -> None:
        """Without rows, as the arena."""
        self._index.clear()

    def locate(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids, dict[int, Table]]:
        """For which places the output is known, these outputs, and tables for other places.

        Args:
            ids: int64 (n,).
            uniform: uint64 (n,): the upper 64 bits of a uniform integer each.
        """
        with self._arena.lock:
            known, found = self._located(ids, uniform)
            if len(found) == len(ids):
                return known, found, {}
            rows, rest = self._index.rows, np.unique(ids[~known]).tolist()
            return known, found, {n: self._table(rows[n]) for n in rest if n in rows}

    def store(self, ids: Ids, tables: list[Table]) -> None:
        """Hold these rows, as far as there is room."""
        for number, table in zip(ids.tolist(), tables, strict=True):
            with self._arena.lock:  # others draw in between
                self._arena.store(self._index, number, table)

    def _located(self, ids: Ids, uniform: Words) -> tuple[NDArray[np.bool_], Ids]:
        memory, units = self._arena.memory, self._index.units.of(ids)
        known = units != ABSENT
        if not known.all():
            uniform, units = uniform[known], units[known]
        cells = search(memory.guide, memory.lasts, units, uniform)
        sparse, wide = self._index.sparse, self._index.wide
        found = memory.outputs[cells].astype(np.int64) if sparse else cells - units * UNIT
        if wide:
            decided = memory.lasts[cells] != uniform
            if not decided.all():
                found, known[known] = found[decided], decided
        return known, found

    def _table(self, row: _Row) -> Table:
        """A row as it was stored."""
        cells, memory = slice(row.first * UNIT, row.first * UNIT + row.outputs), self._arena.memory
        low = memory.low[cells].copy() if row.wide else None
        support = memory.outputs[cells].astype(np.int64) if row.sparse else None
        return Table(memory.lasts[cells].copy(), low, support)

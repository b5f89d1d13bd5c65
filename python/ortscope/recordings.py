"""Recordings from Python: list them, read their tables, hand them to pandas, polars or pyarrow, report, export."""

import array
import json
import os
from typing import Any, Dict, List, Optional

from . import _binary, _native
from .errors import RecordingError

_TYPECODES = {"u64": "Q", "i64": "q", "f64": "d"}


def recordings(store: Optional[Any] = None) -> List[Dict[str, Any]]:
    """The recordings that are kept, newest first."""
    return json.loads(_native.list_recordings(store))  # type: ignore[no-any-return]


def store_directory(store: Optional[Any] = None) -> str:
    """Where recordings are kept."""
    return str(_native.store_directory(store))


class Table:
    """A table of a recording, column by column. Values that are missing are ``None``."""

    def __init__(self, name: str, columns: Dict[str, Any]) -> None:
        self.name = name
        self._columns = columns

    @property
    def column_names(self) -> List[str]:
        return list(self._columns)

    def __len__(self) -> int:
        for kind, values, _ in self._columns.values():
            return len(values) if kind in ("text", "bool") else len(values) // 8
        return 0

    def column(self, name: str) -> List[Any]:
        """One column as a list."""
        if name not in self._columns:
            raise KeyError("%s has no column %r; it has %s" % (self.name, name, ", ".join(self._columns)))
        kind, values, valid = self._columns[name]
        if kind == "text":
            plain = list(values)
        elif kind == "bool":
            plain = [value != 0 for value in values]
        else:
            numbers = array.array(_TYPECODES[kind])
            numbers.frombytes(values)
            plain = numbers.tolist()
        if valid is not None:
            plain = [value if known else None for value, known in zip(plain, valid)]
        return plain

    def to_dict(self) -> Dict[str, List[Any]]:
        return {name: self.column(name) for name in self._columns}

    def to_numpy(self) -> Dict[str, Any]:
        """Columns as numpy arrays; columns with missing values as masked arrays, numbers without a copy."""
        import numpy

        kinds = {"u64": numpy.uint64, "i64": numpy.int64, "f64": numpy.float64, "bool": numpy.bool_}
        result = {}
        for name, (kind, values, valid) in self._columns.items():
            if kind == "text":
                data = numpy.array(values, dtype=object)
            else:
                data = numpy.frombuffer(values, dtype=kinds[kind])
            if valid is not None:
                data = numpy.ma.MaskedArray(data, mask=numpy.frombuffer(valid, dtype=numpy.bool_) == 0)
            result[name] = data
        return result

    def to_arrow(self) -> Any:
        """As ``pyarrow.Table``; numbers without a copy."""
        import pyarrow

        kinds = {"u64": pyarrow.uint64(), "i64": pyarrow.int64(), "f64": pyarrow.float64()}
        arrays = {}
        for name, (kind, values, valid) in self._columns.items():
            if kind in kinds and valid is None:
                length = len(values) // 8
                arrays[name] = pyarrow.Array.from_buffers(kinds[kind], length, [None, pyarrow.py_buffer(values)])
            else:
                given = {"text": pyarrow.string(), "bool": pyarrow.bool_()}
                arrays[name] = pyarrow.array(self.column(name), type=kinds.get(kind) or given[kind])
        return pyarrow.table(arrays)

    def to_pandas(self) -> Any:
        import pandas

        frame = {}
        for name, (kind, values, valid) in self._columns.items():
            if valid is None and kind != "text":
                frame[name] = self.to_numpy_column(name)
            else:
                wide = {"u64": "UInt64", "i64": "Int64", "f64": "Float64", "bool": "boolean"}.get(kind)
                frame[name] = pandas.array(self.column(name), dtype=wide) if wide else self.column(name)
        return pandas.DataFrame(frame)

    def to_numpy_column(self, name: str) -> Any:
        return Table(self.name, {name: self._columns[name]}).to_numpy()[name]

    def to_polars(self) -> Any:
        import polars

        return polars.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        return "<ortscope.Table %s: %d rows of %d columns>" % (self.name, len(self), len(self._columns))


class Recording:
    """A recording by its id, its name, ``last``, or the path of its directory or packed file."""

    def __init__(self, run: Any = "last", store: Optional[Any] = None) -> None:
        self.run = os.fspath(run)
        self._store = store
        # Whether there is one is said now, not with the first table.
        self.rows = dict(_native.table_names(self.run, store))

    def table(self, name: str) -> Table:
        return Table(name, _native.read_table(self.run, name, self._store))

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def report(self, form: str = "text", path: Any = None) -> str:
        """The report as text, html, md, json, junit or csv."""
        return _binary.report(self.run, form, path, self._store)

    def to_html(self, path: Any = None) -> str:
        return self.report("html", path)

    def export(self, path: Any, *arguments: str) -> str:
        """Writes the recording to a file; its ending says the format (``ortscope export --help``)."""
        return _binary.run(["export", self.run, "--to", os.fspath(path)] + list(arguments), self._store)

    def __repr__(self) -> str:
        return "<ortscope.Recording %s: %d rows>" % (self.run, sum(self.rows.values()))


__all__ = ["Recording", "RecordingError", "Table", "recordings", "store_directory"]

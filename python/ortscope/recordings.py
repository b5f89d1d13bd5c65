"""Recordings from Python: list them, read their tables, hand them to pandas, polars or pyarrow, report, export."""

import json
import os
import sys
from typing import Any, Dict, List, Optional

from . import _binary, _native
from .errors import RecordingError

_ORDER = "<" if sys.byteorder == "little" else ">"
#: numpy's names for what a column holds.
_NUMPY_FORMS = {"u64": _ORDER + "u8", "i64": _ORDER + "i8", "f64": _ORDER + "f8", "bool": "|b1"}


def recordings(store: Optional[Any] = None) -> List[Dict[str, Any]]:
    """The recordings that are kept, newest first."""
    return json.loads(_native.list_recordings(store))  # type: ignore[no-any-return]


def store_directory(store: Optional[Any] = None) -> str:
    """Where recordings are kept."""
    return str(_native.store_directory(store))


class _Memory:
    """Values where they lie, for numpy, which keeps this object and with it the table."""

    def __init__(self, owner: Any, address: int, rows: int, form: str) -> None:
        self._owner = owner
        self.__array_interface__ = {"version": 3, "shape": (rows,), "typestr": form, "data": (address, True)}


class Table:
    """A table of a recording, column by column. Values that are missing are ``None``.

    It speaks Arrow's PyCapsule interface: ``pyarrow.table(table)``, ``polars.DataFrame(table)`` and everything else that
    knows ``__arrow_c_stream__`` take it as it is, numbers without a copy.
    """

    def __init__(self, name: str, data: Any) -> None:
        self.name = name
        self._data = data
        self._kinds: Dict[str, str] = dict(data.columns)

    @property
    def column_names(self) -> List[str]:
        return list(self._kinds)

    def __len__(self) -> int:
        return len(self._data)

    def column(self, name: str) -> List[Any]:
        """One column as a list."""
        return self._data.values(name)  # type: ignore[no-any-return]

    def to_dict(self) -> Dict[str, List[Any]]:
        return {name: self.column(name) for name in self._kinds}

    def to_numpy(self) -> Dict[str, Any]:
        """Columns as numpy arrays, numbers without a copy; columns with missing values as masked arrays."""
        return {name: self.to_numpy_column(name) for name in self._kinds}

    def to_numpy_column(self, name: str) -> Any:
        import numpy

        values, valid = self._data.addresses(name)
        if values is None:
            data = numpy.array(self.column(name), dtype=object)
        else:
            data = numpy.asarray(_Memory(self._data, values, len(self), _NUMPY_FORMS[self._kinds[name]]))
        if valid is not None:
            known = numpy.asarray(_Memory(self._data, valid, len(self), "|b1"))
            data = numpy.ma.MaskedArray(data, mask=~known)
        return data

    def __arrow_c_schema__(self) -> object:
        return self._data.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._data.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """As ``pyarrow.Table``; needs pyarrow 14 or newer."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> Any:
        import pandas

        if hasattr(pandas.DataFrame, "from_arrow"):
            return pandas.DataFrame.from_arrow(self)
        frame = {}
        for name, kind in self._kinds.items():
            wide = {"u64": "UInt64", "i64": "Int64", "f64": "Float64", "bool": "boolean"}.get(kind)
            if self._data.addresses(name)[1] is None and wide:
                frame[name] = self.to_numpy_column(name)
            else:
                frame[name] = pandas.array(self.column(name), dtype=wide) if wide else self.column(name)
        return pandas.DataFrame(frame)

    def to_polars(self) -> Any:
        """As ``polars.DataFrame``; needs polars 1.3 or newer."""
        import polars

        return polars.DataFrame(self)

    def __repr__(self) -> str:
        return "<ortscope.Table %s: %d rows of %d columns>" % (self.name, len(self), len(self._kinds))


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

    def result(self) -> Dict[str, Any]:
        """Every figure of the report, as ``ortscope report --json`` prints it."""
        return dict(json.loads(self.report("json")))

    def to_html(self, path: Any = None) -> str:
        return self.report("html", path)

    def export(self, path: Any, *arguments: str) -> str:
        """Writes the recording to a file; its ending says the format (``ortscope export --help``)."""
        return _binary.run(["export", self.run, "--output", os.fspath(path)] + list(arguments), self._store, self.run)

    def __repr__(self) -> str:
        return "<ortscope.Recording %s: %d rows>" % (self.run, sum(self.rows.values()))


__all__ = ["Recording", "RecordingError", "Table", "recordings", "store_directory"]

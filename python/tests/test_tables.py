"""Tables of recordings in the hands of numpy, pyarrow, polars and pandas: the same values, and no copies of numbers."""

import gc

import ortscope
import pytest

ROWS = 300


@pytest.fixture
def table():
    with ortscope.Monitor() as monitor:

        @monitor.monitor_inference("m")
        def work():
            return None

        with monitor.monitor_batch(batch_size=7):
            work()
        for _ in range(ROWS - 1):
            work()
        directory = monitor.stop()["directory"]
    return ortscope.Recording(directory)["inferences"]


def test_columns_are_lists_with_none_for_nulls(table):
    assert len(table) == ROWS and set(table.to_dict()) == set(table.column_names)
    assert table.column("phase") == ["first"] + ["steady"] * (ROWS - 1)
    assert table.column("token") == [None] * ROWS
    assert all(isinstance(ok, bool) for ok in table.column("ok"))
    with pytest.raises(KeyError, match="run_ns"):
        table.column("frobnications")


def test_numpy_sees_the_memory_of_the_table(table):
    numpy = pytest.importorskip("numpy")
    one, other = table.to_numpy_column("run_ns"), table.to_numpy_column("run_ns")
    assert one.ctypes.data == other.ctypes.data and not one.flags.writeable
    expected = table.column("run_ns")
    del table, other
    gc.collect()
    # The array keeps the memory.
    assert one.tolist() == expected and one.dtype == numpy.uint64


def same(table, taken):
    assert set(taken) == set(table.column_names)
    for name in table.column_names:
        assert taken[name] == table.column(name), name


def test_pyarrow_takes_it_without_copying(table):
    pyarrow = pytest.importorskip("pyarrow", minversion="14")
    taken = pyarrow.table(table)
    same(table, taken.to_pydict())
    taken.validate(full=True)
    assert taken.column("run_ns").type == pyarrow.uint64() and taken.column("ok").type == pyarrow.bool_()
    address = taken.column("run_ns").chunk(0).buffers()[1].address
    assert address == table._data.addresses("run_ns")[0]
    assert table.to_arrow().equals(taken)
    assert pyarrow.schema(table).equals(taken.schema)
    column = taken.column("phase")
    expected = table.column("phase")
    del taken, table
    gc.collect()
    # One column, taken out, holds the rest by itself.
    assert column.to_pylist() == expected


def test_polars_takes_it_without_copying(table):
    polars = pytest.importorskip("polars", minversion="1.3")
    taken = polars.DataFrame(table)
    same(table, taken.to_dict(as_series=False))
    assert taken["run_ns"].dtype == polars.UInt64
    assert taken["run_ns"].to_numpy(allow_copy=False).ctypes.data == table._data.addresses("run_ns")[0]
    assert table.to_polars().equals(taken)


def test_pandas_takes_it(table):
    pandas = pytest.importorskip("pandas")
    taken = table.to_pandas()
    assert list(taken.columns) == table.column_names and len(taken) == ROWS
    assert taken["run_ns"].tolist() == table.column("run_ns")
    assert taken["token"].isna().all() and taken["phase"].tolist() == table.column("phase")
    assert isinstance(taken, pandas.DataFrame)


def test_an_unread_stream_is_released(table):
    for _ in range(100):
        table.__arrow_c_stream__()
        table.__arrow_c_schema__()
    pyarrow = pytest.importorskip("pyarrow", minversion="14")
    reader = pyarrow.RecordBatchReader.from_stream(table) if hasattr(pyarrow.RecordBatchReader, "from_stream") else None
    if reader is not None:
        assert reader.read_next_batch().num_rows == ROWS
        with pytest.raises(StopIteration):
            reader.read_next_batch()


def test_an_empty_table_is_a_table():
    with ortscope.Monitor() as monitor:
        monitor.mark("something")
        directory = monitor.stop()["directory"]
    table = ortscope.Recording(directory)["operators"]
    assert len(table) == 0 and table.column("op_type") == []
    pytest.importorskip("numpy")
    assert len(table.to_numpy()["duration_ns"]) == 0
    pyarrow = pytest.importorskip("pyarrow", minversion="14")
    assert pyarrow.table(table).num_rows == 0

"""The installed package: without onnxruntime, typed, with the program next to it."""

import json
import os
import subprocess
import sys

import ortscope
import pytest


def test_it_imports_without_onnxruntime_and_names_the_missing_package(run_script):
    text = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("onnxruntime", "numpy"):
            raise ImportError("hidden: " + name)
sys.meta_path.insert(0, Hidden())
import ortscope
monitor = ortscope.Monitor(record=False)
@monitor.monitor_inference("m")
def work():
    return None
work()
assert monitor.summary().inferences == 1
try:
    ortscope.MonitoredInferenceSession
except ortscope.MonitorError as error:
    assert "pip install onnxruntime" in str(error)
else:
    raise AssertionError
try:
    ortscope.patch(record=False)
except ortscope.MonitorError:
    print("good")
"""
    done = run_script(text)
    assert done.returncode == 0 and done.stdout == "good\n", done.stderr


def test_it_is_typed():
    package = os.path.dirname(ortscope.__file__)
    assert os.path.isfile(os.path.join(package, "py.typed"))
    assert os.path.isfile(os.path.join(package, "_native.pyi"))


def test_the_stub_names_everything_the_module_has():
    from ortscope import _native

    stub = open(os.path.join(os.path.dirname(ortscope.__file__), "_native.pyi"), encoding="utf-8").read()
    public = [name for name in dir(_native) if not name.startswith("__")]
    missing = [name for name in public if "def %s(" % name not in stub and "class %s" % name not in stub and name + ":" not in stub]
    assert missing == []


def test_everything_that_is_promised_is_there():
    for name in ortscope.__all__:
        assert getattr(ortscope, name) is not None, name
    with pytest.raises(AttributeError):
        ortscope.frobnicate


def test_the_program_reads_recordings_of_the_package(program):
    with ortscope.Monitor(name="from-python") as monitor:

        @monitor.monitor_inference("classifier")
        def work():
            return sum(range(1000))

        for _ in range(300):
            work()
        identity = monitor.stop()["id"]
    listed = subprocess.run([program, "runs", "list", "--json"], stdout=subprocess.PIPE, check=True)
    runs = json.loads(listed.stdout)["runs"]
    assert [(run["id"], run["name"]) for run in runs] == [(identity, "from-python")]
    text = ortscope.Recording("from-python").report()
    assert "classifier" in text
    assert "<html" in ortscope.Recording("from-python").to_html().lower()


def test_python_dash_m_is_the_program(program):
    done = subprocess.run(
        [sys.executable, "-m", "ortscope", "--version"],
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
        check=True,
    )
    assert ortscope.__version__.encode() in done.stdout


def test_a_damaged_recording_is_an_exception_with_a_sentence(tmp_path):
    with pytest.raises(ortscope.RecordingError):
        ortscope.Recording("no-such-run")
    with ortscope.Monitor() as monitor:
        monitor.mark("something")
        directory = monitor.stop()["directory"]
    recording = ortscope.Recording(directory)
    with pytest.raises(ortscope.RecordingError, match="inferences"):
        recording.table("frobnications")


def test_tables_become_arrays():
    numpy = pytest.importorskip("numpy")
    with ortscope.Monitor() as monitor:

        @monitor.monitor_inference("m")
        def work():
            return None

        for _ in range(10):
            work()
        table = ortscope.Recording(monitor.stop()["directory"])["inferences"]
    arrays = table.to_numpy()
    assert len(table) == 10 and arrays["run_ns"].dtype == numpy.uint64
    assert arrays["batch_size"].mask.all() and arrays["ok"].all()
    assert table.to_dict()["phase"] == ["first"] + ["steady"] * 9
    pyarrow = pytest.importorskip("pyarrow")
    arrow = table.to_arrow()
    assert arrow.num_rows == 10 and arrow.column("run_ns").type == pyarrow.uint64()

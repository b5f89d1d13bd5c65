"""Forks, shutdown, sub-interpreters, killed programs, `python -m ortscope record`: no hang, no crash, no lost data."""

import json
import os
import signal
import sys

import ortscope
import pytest

WORK = """
import os, sys, ortscope
monitor = ortscope.Monitor()
@monitor.monitor_inference("m")
def work():
    return None
"""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def only_recording():
    (entry,) = ortscope.recordings()
    return ortscope.Recording(entry["id"])


def finished(done):
    assert done.returncode == 0, done.stderr
    return done


def test_a_program_that_never_stops_its_monitor_keeps_everything(run_script):
    finished(run_script(WORK + "for _ in range(100): work()\n"))
    assert only_recording().rows["inferences"] == 100


def test_an_uncaught_exception_and_sys_exit_keep_everything(run_script):
    done = run_script(WORK + "work()\nraise SystemExit(3)\n")
    assert done.returncode == 3
    done = run_script(WORK + "work()\n1 / 0\n")
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr
    assert [entry["finished"] for entry in ortscope.recordings()] == [True, True]


def test_threads_that_run_on_during_shutdown_do_no_harm(run_script):
    text = WORK + """
import threading, time
done = [0, 0, 0]
def loop(number):
    while True:
        work()
        done[number] += 1
for number in range(3):
    threading.Thread(target=loop, args=(number,), daemon=True).start()
while min(done) < 100:
    time.sleep(0.01)
"""
    finished(run_script(text))
    assert only_recording().rows["inferences"] >= 300


@needs_fork
def test_a_forked_child_is_recorded_by_its_parent(run_script):
    text = WORK + """
work()
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        for _ in range(10):
            work()
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
work()
"""
    finished(run_script(text))
    recording = only_recording()
    assert recording.rows["inferences"] == 2 + 3 * 10
    assert len(set(recording["sessions"].column("pid"))) == 4


@needs_fork
def test_a_forked_child_that_ends_normally_does_not_end_the_recording(run_script):
    text = WORK + """
work()
pid = os.fork()
if pid == 0:
    work()
    sys.exit(0)
os.waitpid(pid, 0)
work()
"""
    finished(run_script(text))
    assert only_recording().rows["inferences"] == 3


@needs_fork
def test_multiprocessing_by_fork(run_script):
    text = WORK + """
import multiprocessing
def child(number):
    work()
    return number
if __name__ == "__main__":
    monitor.start()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert sorted(pool.map(child, range(20))) == list(range(20))
    monitor.stop()
"""
    finished(run_script(text))
    assert only_recording().rows["inferences"] == 20


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_killed_program_loses_nothing_that_was_finished(run_script):
    text = WORK + """
import signal
for _ in range(1000):
    work()
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert run_script(text).returncode == -9
    assert only_recording().rows["inferences"] == 1000


def test_a_sub_interpreter_is_refused_by_name(run_script):
    text = """
import ortscope
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters
other = interpreters.create()
code = '''
try:
    import ortscope
except ImportError as error:
    assert "interpreter" in str(error), error
'''
try:
    result = interpreters.run_string(other, code)
    assert result is None, result
finally:
    interpreters.destroy(other)
print("refused")
"""
    done = finished(run_script(text))
    assert "refused" in done.stdout


def test_a_free_threaded_build_is_refused_by_name(run_script):
    # As such a build would answer; none is needed to see the refusal.
    text = """
import sys, sysconfig
original = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else original(name)
sys._is_gil_enabled = lambda: False
try:
    import ortscope
except ImportError as error:
    assert "free-threaded" in str(error) and "hint" in str(error), error
    print("refused")
"""
    assert finished(run_script(text)).stdout == "refused\n"


SESSION = """
import sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
for _ in range(25):
    session.run(None, {"x": numpy.ones((2, 4), dtype=numpy.float32)})
"""


def test_record_instruments_an_unmodified_program_and_its_children(run_script, identity):
    text = SESSION + """
import subprocess
if len(sys.argv) == 2:
    subprocess.check_call([sys.executable, __file__, sys.argv[1], "child"])
assert "ortscope" not in globals()
print("the program's own output")
sys.exit(5)
""".replace("check_call", "call")
    done = run_script(text, identity, launcher=["-m", "ortscope", "record", "--json"])
    assert done.returncode == 5, done.stderr
    lines = done.stdout.strip().splitlines()
    assert lines[:2] == ["the program's own output"] * 2
    document = json.loads(lines[-1])
    assert document["summary"]["inferences"] == 50
    assert document["recording"]["losses"] == [] and document["recording"]["errors"] == []
    recording = only_recording()
    assert recording.rows["inferences"] == 50 and len(set(recording["sessions"].column("pid"))) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_record_keeps_everything_of_a_program_that_is_killed(run_script, identity):
    text = SESSION + "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    done = run_script(text, identity, launcher=["-m", "ortscope", "record"])
    assert done.returncode == 137 and "SIGKILL" in done.stderr
    recording = only_recording()
    assert recording.rows["inferences"] == 25
    assert recording["sessions"].column("model_name") == ["identity"]


def test_record_of_a_program_without_onnxruntime(run_script):
    done = run_script("print('nothing to see')\n", launcher=["-m", "ortscope", "record"])
    assert done.returncode == 0 and done.stdout == "nothing to see\n"


def test_another_sitecustomize_still_runs(run_script, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.was_here = True\n")
    text = "import builtins, sys\nsys.exit(0 if getattr(builtins, 'was_here', False) else 9)\n"
    sys.path.insert(0, str(tmp_path))
    try:
        assert run_script(text, launcher=["-m", "ortscope", "record"]).returncode == 0
    finally:
        sys.path.remove(str(tmp_path))

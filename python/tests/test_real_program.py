"""A program that knows nothing of ortscope and uses a published package: text recognition by rapidocr, three models.

`cargo xtask test` installs the package; elsewhere this is skipped.
"""

import importlib.util
import os
import signal
import subprocess
import sys

import ortscope
import pytest

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("rapidocr_onnxruntime") is None, reason="rapidocr-onnxruntime is not installed"
)

APP = """
import sys
import cv2, numpy
from rapidocr_onnxruntime import RapidOCR

page = numpy.full((120, 480, 3), 255, dtype=numpy.uint8)
cv2.putText(page, "ONE PAGE 42", (20, 70), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (0, 0, 0), 3)
read = RapidOCR()
for number in range(int(sys.argv[1])):
    found, _ = read(page)
    print(found[0][1], flush=True)
"""

#: Runs a program and prints how often it called ONNX Runtime: by this count, not by its own, ortscope is judged.
COUNT = """
import runpy, sys
import onnxruntime
calls = [0]
original = onnxruntime.InferenceSession.run
def run(*arguments, **named):
    calls[0] += 1
    return original(*arguments, **named)
onnxruntime.InferenceSession.run = run
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print("calls", calls[0])
"""


def start(command, **options):
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=dict(os.environ), **options
    )


@pytest.fixture
def app(tmp_path):
    path = tmp_path / "app.py"
    path.write_text(APP)
    return str(path)


def test_every_inference_is_recorded_with_the_operators_of_some(app, tmp_path, program):
    counter = tmp_path / "count.py"
    counter.write_text(COUNT)
    said, problems = start([sys.executable, str(counter), app, "3"]).communicate(timeout=300)
    assert "ONE PAGE 42" in said, problems
    calls = int(said.split("calls ")[1])
    assert calls >= 3 * 2

    recorder = start([program, "record", "--json", "--profile-every", "3", "--", sys.executable, app, "3"])
    said, problems = recorder.communicate(timeout=300)
    assert recorder.returncode == 0, problems
    assert said.count("ONE PAGE 42") == 3
    recording = ortscope.Recording("last")
    assert recording.rows["inferences"] == calls
    assert recording["inferences"].column("ok") == [True] * calls
    assert len(recording["sessions"].column("model_name")) >= 2
    if ortscope.profiling_unavailable() is None:
        assert "Conv" in set(recording["operators"].column("op_type"))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_killed_it_loses_nothing_that_was_finished(app, tmp_path, program):
    # The program is killed from outside, by the process id that it printed.
    path = tmp_path / "killed.py"
    path.write_text("import os\nprint('pid', os.getpid(), flush=True)\n" + APP)
    recorder = start([program, "record", "--", sys.executable, str(path), "1000000"])
    pid = int(recorder.stdout.readline().split()[1])
    pages = 0
    while pages < 5:
        assert recorder.stdout.readline().strip() == "ONE PAGE 42", recorder.stderr.read()
        pages += 1
    os.kill(pid, signal.SIGKILL)
    rest, problems = recorder.communicate(timeout=300)
    pages += rest.count("ONE PAGE 42")
    assert recorder.returncode == 128 + signal.SIGKILL, problems
    recording = ortscope.Recording("last")
    # Each page takes at least one inference to find the text and one to read it.
    assert recording.rows["inferences"] >= 2 * pages
    assert ortscope.recordings()[0]["finished"]

"""Every example runs unmodified."""

import importlib.util
import json
import os
import subprocess
import sys

import ortscope
import pytest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")
SCRIPTS = ["classifier_loop.py", "batch_job.py", "decoding_loop.py"]

#: Replaces a notebook's page.
NO_NOTEBOOK = """
import sys, types
page = types.ModuleType("IPython.display")
page.HTML, page.display = str, lambda shown, display_id: types.SimpleNamespace(update=lambda shown: None)
sys.modules["IPython"], sys.modules["IPython.display"] = types.ModuleType("IPython"), page
"""


def environment(**more):
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **more)


def run(command, cwd=None, **more):
    done = subprocess.run(
        command, cwd=cwd, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(script, identity):
    said = run([sys.executable, os.path.join(EXAMPLES, script), identity])
    assert "recording" in said
    (entry,) = ortscope.recordings()
    assert entry["finished"]


def test_the_regression_tests(identity, tmp_path):
    plugin = [] if _is_installed() else ["-p", "ortscope.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"] + plugin
    command += ["--ortscope-baseline", str(tmp_path), os.path.join(EXAMPLES, "test_latency.py")]
    said = run(command, MODEL=identity)
    assert "2 passed" in said and "there is no baseline" in said


def _is_installed():
    site = os.path.dirname(os.path.dirname(os.path.abspath(ortscope.__file__)))
    return any(name.startswith("ortscope-") and name.endswith(".dist-info") for name in os.listdir(site))


def test_the_service(identity, monkeypatch):
    pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    monkeypatch.setenv("MODEL", identity)
    monkeypatch.syspath_prepend(EXAMPLES)
    import service

    client = testclient.TestClient(service.app)
    assert client.post("/predict", json=[1, 2, 3, 4]).json() == [[1, 2, 3, 4]]
    assert client.get("/statistics").json()["inferences"] == 1
    service.monitor.stop()


def test_the_service_under_load(identity):
    for needed in ("fastapi", "uvicorn", "httpx"):
        pytest.importorskip(needed)
    said = run([sys.executable, os.path.join(EXAMPLES, "service_load.py"), identity, "100"])
    assert "100 inferences, p50" in said
    (entry,) = ortscope.recordings()
    assert entry["finished"], "the service was ended by a signal, as usual, and its recording is whole"


def test_the_notebook(tmp_path, identity):
    with open(os.path.join(EXAMPLES, "notebook.ipynb"), encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    program = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    if importlib.util.find_spec("IPython") is None:
        program = NO_NOTEBOOK + program
    os.rename(identity, str(tmp_path / "model.onnx"))
    (tmp_path / "notebook.py").write_text(program, encoding="utf-8")
    assert "2000 inferences, median" in run([sys.executable, "notebook.py"], cwd=str(tmp_path))


def test_every_example_is_named_in_the_list():
    text = open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8").read()
    for name in os.listdir(EXAMPLES):
        assert name in text or name in ("README.md", "__pycache__"), name

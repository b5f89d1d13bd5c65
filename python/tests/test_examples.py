"""Every example runs as it stands."""

import os
import subprocess
import sys

import ortscope
import pytest

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "python")
SCRIPTS = ["classifier_loop.py", "batch_job.py", "decoding_loop.py"]


def environment(**more):
    return dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **more)


def run(command, **more):
    done = subprocess.run(
        command, env=environment(**more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts(script, identity):
    said = run([sys.executable, os.path.join(EXAMPLES, script), identity])
    assert "recording" in said
    (entry,) = ortscope.recordings()
    assert entry["finished"]


def test_the_regression_test(identity):
    plugin = [] if _is_installed() else ["-p", "ortscope.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"] + plugin
    said = run(command + [os.path.join(EXAMPLES, "test_latency.py")], MODEL=identity)
    assert "1 passed" in said


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


def test_every_example_is_named_in_the_list():
    text = open(os.path.join(EXAMPLES, "README.md"), encoding="utf-8").read()
    for name in os.listdir(EXAMPLES):
        assert name in text or name in ("README.md", "__pycache__"), name

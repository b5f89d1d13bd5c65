import os
import subprocess
import sys
import textwrap

import pytest

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import models  # noqa: E402

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    """Recordings of tests never go to the user's own place."""
    place = tmp_path / "store"
    monkeypatch.setenv("ORTSCOPE_STORE", str(place))
    monkeypatch.delenv("ORTSCOPE_CHANNEL", raising=False)
    yield place
    import ortscope
    from ortscope import _engine, _monitor

    ortscope.unpatch()
    if _monitor.default_monitor() is not None:
        _monitor.default_monitor().stop()
    _engine._at_exit()


@pytest.fixture
def identity(tmp_path):
    path = tmp_path / "identity.onnx"
    path.write_bytes(models.identity())
    return str(path)


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.onnx"
    path.write_bytes(models.chain())
    return str(path)


@pytest.fixture
def x():
    import numpy

    return numpy.ones((2, 4), dtype=numpy.float32)


@pytest.fixture
def run_script(tmp_path):
    """Runs a script with this interpreter; gives the finished process."""

    def run(text, *arguments, launcher=(), timeout=120, **environment):
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(text))
        variables = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path), **environment)
        command = [sys.executable] + list(launcher) + [str(script)] + list(arguments)
        return subprocess.run(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=timeout
        )

    return run


@pytest.fixture
def program():
    """The program of the package, or of a build that ORTSCOPE_BINARY names."""
    from ortscope import OrtscopeError, _binary

    try:
        return _binary.find()
    except OrtscopeError as error:
        pytest.skip(str(error))

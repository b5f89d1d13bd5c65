"""Every Python snippet of the README and of docs/PYTHON.md runs as it is written there.

The snippets of a page are one program, from top to bottom; a snippet with tests is a test file of its own.
"""

import os
import re
import subprocess
import sys

import models
import ortscope
import pytest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGES = ["README.md", os.path.join("docs", "PYTHON.md")]
SNIPPET = re.compile(r"^```(?:python|py)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return SNIPPET.findall(file.read())


def is_test(snippet):
    return re.search(r"^def test_", snippet, re.MULTILINE) is not None


@pytest.fixture
def run_here(tmp_path):
    (tmp_path / "model.onnx").write_bytes(models.identity())

    def run(arguments):
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
        done = subprocess.run(
            [sys.executable] + arguments,
            cwd=str(tmp_path),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=300,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.mark.parametrize("page", PAGES)
def test_the_program_of_a_page_runs(page, run_here, tmp_path, program):
    found = [snippet for snippet in snippets(page) if not is_test(snippet)]
    if not found:
        pytest.skip("%s has no Python snippets" % page)
    (tmp_path / "page.py").write_text("\n".join(found), encoding="utf-8")
    run_here(["page.py"])
    assert ortscope.recordings()


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_of_a_page_pass(page, run_here, tmp_path):
    found = [snippet for snippet in snippets(page) if is_test(snippet)]
    if not found:
        pytest.skip("%s has no tests" % page)
    for number, snippet in enumerate(found):
        (tmp_path / ("test_page_%d.py" % number)).write_text(snippet, encoding="utf-8")
    said = run_here(["-m", "pytest", "-q", "-p", "no:cacheprovider"] + plugin())
    assert "%d passed" % len(found) in said


def plugin():
    """Installed, pytest finds it by itself."""
    site = os.path.dirname(os.path.dirname(os.path.abspath(ortscope.__file__)))
    installed = any(name.startswith("ortscope-") and name.endswith(".dist-info") for name in os.listdir(site))
    return [] if installed else ["-p", "ortscope.pytest_plugin"]


def test_the_pages_have_snippets():
    assert len(snippets(os.path.join("docs", "PYTHON.md"))) >= 6

"""Notebook display: tables as HTML, a page of its own, a live view."""

import sys
import time
import types

import ortscope
import pytest


def some_work(monitor):
    @monitor.monitor_inference("<model & co>")
    def work():
        return None

    for _ in range(20):
        work()


def test_a_summary_is_a_page(tmp_path):
    with ortscope.Monitor(record=False) as monitor:
        some_work(monitor)
        page = monitor.summary().to_html(tmp_path / "page.html")
        assert "&lt;model &amp; co&gt;" in monitor.summary()._repr_html_()
    assert page == (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "<script" not in page and "<model" not in page


def test_a_live_view_follows(monkeypatch):
    pages = []

    class Handle:
        def update(self, page):
            pages.append(page)

    def display(page, display_id=None):
        assert display_id is True
        pages.append(page)
        return Handle()

    fake = types.ModuleType("IPython.display")
    fake.HTML, fake.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    with ortscope.Monitor(record=False) as monitor:
        with monitor.live(seconds=0.1) as view:
            some_work(monitor)
            deadline = time.monotonic() + 30
            # The work may end between two refreshes: the last page must be one made after it.
            begun = len(pages)
            while len(pages) < max(3, begun + 2) and time.monotonic() < deadline:
                time.sleep(0.05)
        assert view.refreshes == len(pages) >= 3
        assert "<td>20</td>" in pages[-1]
        with pytest.raises(ValueError):
            monitor.live(seconds=0)


def test_without_a_notebook_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with ortscope.Monitor(record=False) as monitor:
        with pytest.raises(ortscope.MonitorError, match="notebook"):
            monitor.live()

"""A live view in a notebook: the summary of a monitor, again and again in the same place of the page."""

import threading
from typing import Any, Optional

from .errors import MonitorError


class LiveView:
    """``with monitor.live():`` shows the summary while the cell runs. ``refresh()`` does it once.

    Needs IPython, which every notebook has. The thread that refreshes holds the GIL only while the page is made.
    """

    def __init__(self, monitor: Any, seconds: float = 1.0) -> None:
        if not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0.1 <= seconds <= 3600:
            raise ValueError("a live view is refreshed every 0.1 to 3600 seconds, not %r" % (seconds,))
        try:
            from IPython.display import HTML, display
        except ImportError as error:
            raise MonitorError("a live view needs a notebook; hint: print(monitor.summary()) works everywhere") from error
        self._html, self._display = HTML, display
        self._monitor, self._seconds = monitor, seconds
        self._handle: Any = None
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self.refreshes = 0

    def refresh(self) -> None:
        page = self._html(self._monitor._repr_html_())
        if self._handle is None:
            self._handle = self._display(page, display_id=True)
        else:
            self._handle.update(page)
        self.refreshes += 1

    def start(self) -> "LiveView":
        if self._thread is None:
            self._ended.clear()
            self.refresh()
            self._thread = threading.Thread(target=self._work, name="ortscope-live-view", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        self._ended.set()
        if thread is not None:
            thread.join(timeout=5)
            self.refresh()

    def _work(self) -> None:
        while not self._ended.wait(self._seconds):
            self.refresh()

    def __enter__(self) -> "LiveView":
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()

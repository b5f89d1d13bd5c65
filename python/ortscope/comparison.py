"""Two recordings side by side: medians with intervals. Not a verdict: one process run each cannot give one."""

import html
import math
import os
from typing import Any, Dict, List, Optional, Tuple

from .recordings import Recording

#: The unit of comparison is a process run, and this has one of each.
CAVEAT = (
    "not a verdict: the intervals say how well each recording knows its own median, not how much a new process run would "
    "differ; 'ortscope bench' and 'ortscope gate' repeat runs"
)
#: Below this an interval of 95 % for the median does not exist.
MIN_RUNS = 6
_Z = 1.959963984540054


def median_interval(values: List[float]) -> Tuple[float, Optional[Tuple[float, float]]]:
    """The median and its 95 % interval from order statistics; the interval is ``None`` with too few values."""
    ordered = sorted(values)
    count = len(ordered)
    middle = ordered[count // 2] if count % 2 else (ordered[count // 2 - 1] + ordered[count // 2]) / 2
    if count < MIN_RUNS:
        return middle, None
    if count <= 50:
        # Exact: the largest k with P(Binomial(n, 1/2) < k) <= 2.5 %.
        below, k = 0.0, 0
        while below + math.factorial(count) / (math.factorial(k) * math.factorial(count - k)) / 2.0**count <= 0.025:
            below += math.factorial(count) / (math.factorial(k) * math.factorial(count - k)) / 2.0**count
            k += 1
        low = k - 1
    else:
        low = int(math.floor((count - _Z * math.sqrt(count)) / 2)) - 1
    return middle, (ordered[low], ordered[count - 1 - low])


class Comparison:
    """Comparison of two recordings by model. ``rows`` has plain values; ``print`` it, or show it in a notebook."""

    is_verdict = False
    caveat = CAVEAT

    def __init__(self, a: Recording, b: Recording) -> None:
        self.a, self.b = a, b
        of_a, of_b = _latencies(a), _latencies(b)
        self.rows: List[Dict[str, Any]] = [
            _row(model, of_a[model], of_b[model]) for model in sorted(set(of_a) & set(of_b))
        ]
        self.only_in_a = sorted(set(of_a) - set(of_b))
        self.only_in_b = sorted(set(of_b) - set(of_a))

    def to_dict(self) -> Dict[str, Any]:
        return {
            "verdict": None,
            "caveat": self.caveat,
            "models": self.rows,
            "only_in_a": self.only_in_a,
            "only_in_b": self.only_in_b,
        }

    def _cells(self) -> List[List[str]]:
        cells = [["model", "runs", "median a", "median b", "b / a", "intervals"]]
        for row in self.rows:
            cells.append(
                [
                    row["model"],
                    "%d, %d" % (row["a"]["runs"], row["b"]["runs"]),
                    _shown(row["a"]),
                    _shown(row["b"]),
                    "%.3f" % row["ratio"],
                    {True: "overlap", False: "apart", None: "n/a (needs ≥ %d runs)" % MIN_RUNS}[row["overlap"]],
                ]
            )
        return cells

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
        for name, models in (("a", self.only_in_a), ("b", self.only_in_b)):
            if models:
                lines.append("only in %s: %s" % (name, ", ".join(models)))
        return "\n".join(lines + [self.caveat])

    def _repr_html_(self) -> str:
        rows = [
            "<tr>%s</tr>" % "".join("<%s>%s</%s>" % (tag, html.escape(cell), tag) for cell in row)
            for row, tag in zip(self._cells(), ["th"] + ["td"] * len(self.rows))
        ]
        return "<table>%s</table><p>%s</p>" % ("".join(rows), html.escape(self.caveat))

    def __repr__(self) -> str:
        return "<ortscope.Comparison of %d models, no verdict>" % len(self.rows)


def _shown(side: Dict[str, Any]) -> str:
    text = "%.4f ms" % side["median_ms"]
    if side["interval_ms"] is not None:
        text += " [%.4f .. %.4f]" % tuple(side["interval_ms"])
    return text


def _row(model: str, a: List[float], b: List[float]) -> Dict[str, Any]:
    sides = []
    for values in (a, b):
        median, interval = median_interval(values)
        sides.append({"runs": len(values), "median_ms": median, "interval_ms": interval})
    first, second = sides[0]["interval_ms"], sides[1]["interval_ms"]
    overlap = None
    if first is not None and second is not None:
        overlap = first[0] <= second[1] and second[0] <= first[1]
    ratio = sides[1]["median_ms"] / sides[0]["median_ms"] if sides[0]["median_ms"] else float("nan")
    return {"model": model, "a": sides[0], "b": sides[1], "ratio": ratio, "overlap": overlap}


def _latencies(recording: Recording) -> Dict[str, List[float]]:
    """Milliseconds of the steady runs of each model: neither first nor profiled nor failed ones."""
    sessions = recording["sessions"]
    models = dict(zip(sessions.column("session_id"), sessions.column("model_name")))
    table = recording["inferences"]
    found: Dict[str, List[float]] = {}
    columns = ("session_id", "run_ns", "phase", "ok")
    for session, nanos, phase, ok in zip(*(table.column(name) for name in columns)):
        if ok and phase not in ("first", "profiled"):
            found.setdefault(models.get(session) or "unknown model", []).append(nanos / 1e6)
    return found


def compare(a: Any, b: Any, store: Optional[Any] = None) -> Comparison:
    """Compares two recordings (or their ids, names or paths) model by model. It does not judge: see :data:`CAVEAT`."""
    given = [run if isinstance(run, Recording) else Recording(os.fspath(run), store) for run in (a, b)]
    return Comparison(given[0], given[1])


__all__ = ["Comparison", "compare", "median_interval"]

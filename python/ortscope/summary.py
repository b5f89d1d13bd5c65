"""A summary of the live view, for people, notebooks and code."""

import html
import json
from typing import Any, Dict, Iterable, List, Optional

_COLUMNS = ("model", "count", "errors", "mean", "p50", "p90", "p99", "max", "per second")

_STYLE = (
    "<style>body{font:14px system-ui,sans-serif;margin:2em}table{border-collapse:collapse;margin-bottom:1em}"
    "th,td{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}th:first-child,td:first-child{text-align:left}"
    "</style>"
)


def _ms(value: Optional[float]) -> str:
    return "n/a" if value is None else "%.3f ms" % value


class Summary:
    """Counts and latencies per session. ``data`` has everything as plain values."""

    def __init__(self, data: Dict[str, Any], recording_id: Optional[str] = None) -> None:
        self.data = data
        self.recording_id = recording_id

    @property
    def inferences(self) -> int:
        return int(self.data["inferences"])

    @property
    def sessions(self) -> List[Dict[str, Any]]:
        return list(self.data["sessions"])

    @property
    def operators(self) -> List[Dict[str, Any]]:
        """Operators of the profiled runs by type, the most expensive first."""
        return sorted(self.data["operators"], key=lambda row: -row["total_ms"])

    def model(self, name: str) -> Dict[str, Any]:
        """The figures of one model; if it has several sessions, of the one with the most inferences."""
        found = [session for session in self.sessions if session["model_name"] == name]
        if not found:
            known = sorted({str(session["model_name"]) for session in self.sessions})
            raise KeyError("no session has a model called %r; there are %s" % (name, ", ".join(known) or "none"))
        return max(found, key=lambda session: session["count"])

    def to_dict(self) -> Dict[str, Any]:
        return self.data

    def to_json(self) -> str:
        return json.dumps(self.data, indent=2)

    def to_html(self, path: Any = None) -> str:
        """A page of its own with the figures, without scripts; written to ``path`` if one is given."""
        title = "ortscope" + (" · recording %s" % self.recording_id if self.recording_id else "")
        page = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>%s</head><body>%s</body></html>\n" % (
            html.escape(title),
            _STYLE,
            self._repr_html_(),
        )
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def _rows(self) -> List[List[str]]:
        rows = []
        for session in self.sessions:
            of = session["percentiles_ms"]
            rate = session["per_second"]
            rows.append(
                [
                    str(session["model_name"]),
                    str(session["count"]),
                    str(session["errors"]),
                    _ms(session["mean_ms"]),
                    _ms(of.get("p50")),
                    _ms(of.get("p90")),
                    _ms(of.get("p99")),
                    _ms(session["max_ms"]),
                    "n/a" if rate is None else "%.1f" % rate,
                ]
            )
        return rows

    def __str__(self) -> str:
        rows = [list(_COLUMNS)] + self._rows()
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        if self.recording_id:
            lines.append("recording %s" % self.recording_id)
        return "\n".join(lines)

    def __repr__(self) -> str:
        return "<ortscope.Summary of %d inferences in %d sessions>" % (self.inferences, len(self.sessions))

    def _repr_html_(self) -> str:
        parts = [_table(_COLUMNS, self._rows())]
        if self.operators:
            rows = [[row["op_type"], str(row["count"]), "%.3f ms" % row["total_ms"]] for row in self.operators[:10]]
            parts.append(_table(("operator (sampled runs)", "count", "total"), rows))
        if self.recording_id:
            parts.append("<p>recording %s</p>" % html.escape(self.recording_id))
        return "".join(parts)


def _table(columns: Iterable[str], rows: List[List[str]]) -> str:
    head = "".join("<th>%s</th>" % html.escape(name) for name in columns)
    body = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(cell) for cell in row) for row in rows)
    return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (head, body)

"""What was seen: a summary of the live view, for people, notebooks and code."""

import html
import json
from typing import Any, Dict, List, Optional

_COLUMNS = ("model", "count", "errors", "mean", "p50", "p90", "p99", "max", "per second")


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
        head = "".join("<th>%s</th>" % html.escape(name) for name in _COLUMNS)
        body = "".join(
            "<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(cell) for cell in row) for row in self._rows()
        )
        return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (head, body)

"""Starts TensorBoard over a directory, asks it as its page does, ends it, and prints what it answered: one JSON document.

Used by the tests of exports (`cargo xtask test --full`). Everything stays on this machine.
"""

import contextlib
import gzip
import importlib.util
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

READY_WITHIN_SECONDS = 120


def free_port():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Board:
    def __init__(self, directory):
        self.port = free_port()
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", directory, "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--load_fast=false", "--reload_interval", "1"]
        # More points than there are: by itself it keeps some of them. Of histograms it shows 51, whatever is asked.
        command += ["--samples_per_plugin", "scalars=1000000,text=1000"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/data/{path}"
        if query:
            url += "?" + urllib.parse.urlencode(query)
        with urllib.request.urlopen(url, timeout=120) as answer:
            data = answer.read()
        # The Profile tab packs its answers, whatever was asked for.
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)

    def runs(self):
        """All runs, when no more are found."""
        end = time.monotonic() + READY_WITHIN_SECONDS
        before = None
        while time.monotonic() < end:
            assert self.process.poll() is None, "TensorBoard ended"
            try:
                found = self.ask("runs")
            except (urllib.error.URLError, ConnectionError):
                found = None
            if found and found == before:
                return found
            before = found
            time.sleep(2)
        raise TimeoutError("TensorBoard does not answer")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def total(values):
    return {"count": len(values), "sum": sum(values)}


def answers(board):
    runs = board.runs()
    found = {"runs": runs, "scalars": {}, "histograms": {}, "texts": 0, "profiles": {}}
    for run, tags in board.ask("plugin/scalars/tags").items():
        for tag in tags:
            points = board.ask("plugin/scalars/scalars", tag=tag, run=run)
            found["scalars"].setdefault(run, {})[tag] = total([value for _, _, value in points])
    for run, tags in board.ask("plugin/histograms/tags").items():
        for tag in tags:
            points = board.ask("plugin/histograms/histograms", tag=tag, run=run)
            counts = [bucket[2] for _, _, buckets in points for bucket in buckets]
            found["histograms"].setdefault(run, {})[tag] = {"count": len(points), "sum": sum(counts)}
    for run, tags in board.ask("plugin/text/tags").items():
        found["texts"] += sum(len(board.ask("plugin/text/text", tag=tag, run=run)) for tag in tags)
    if importlib.util.find_spec("xprof") is None:
        found["profiles"] = None
        return found
    for run in board.ask("plugin/profile/runs"):
        tools = board.ask("plugin/profile/run_tools", run=run)
        host = board.ask("plugin/profile/hosts", run=run, tag="trace_viewer@")[0]["hostname"]
        trace = board.ask("plugin/profile/data", run=run, tag="trace_viewer@", host=host, resolution=0)
        slices = [event["dur"] for event in trace["traceEvents"] if event.get("ph") == "X"]
        table = board.ask("plugin/profile/data", run=run, tag="framework_op_stats", host=host)[-1]
        columns = [column["id"] for column in table["cols"]]
        rows = [dict(zip(columns, (cell.get("v") for cell in row["c"]))) for row in table["rows"]]
        rows = [row for row in rows if row["type"] != "IDLE"]
        found["profiles"][run] = {
            "tools": tools,
            "slices": total(slices),
            "operators": {
                "count": sum(row["occurrences"] for row in rows),
                "sum": sum(row["total_time"] for row in rows),
            },
        }
    return found


def main(directory):
    board = Board(directory)
    try:
        print(json.dumps(answers(board)))
    finally:
        board.stop()


main(sys.argv[1])

"""Benchmarks of functions, judged like models by ``ortscope gate``: blocks in fresh processes, bounds, a verdict.

Calls within one process share its memory layout, its clocks and its luck. So the unit is a *block*: a process of its own
whose warm-up is cut. Blocks of now are judged against blocks that were kept (:meth:`Judge.blocks`), or two functions are
measured in turns (:meth:`Judge.rounds`). How a process is started is the caller's business: see the pytest plugin.
"""

import json
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _native
from .errors import OrtscopeError

Figures = Dict[str, float]

SCHEMA = "ortscope.benchmark/1"
#: The default metrics of a benchmark.
USUAL_METRICS = ("p50", "p90")
FAIL_ON = ("regression", "inconclusive", "never")
#: The fewest blocks a side that can give a verdict, with one to spare.
USUAL_BLOCKS = 6
FEWEST_BLOCKS = 5
MAX_BLOCKS = 50
USUAL_SECONDS = 0.8
#: A slow function gets this long for the calls that its metrics need.
MAX_SECONDS = 10.0
#: A block keeps one number per call; beyond this many it ends.
MAX_CALLS = 1000000
#: The warm-up may take half of the calls.
SPARE = 2.0


def measure(function: Callable[[], Any], seconds: float, needed: int) -> List[int]:
    """Nanoseconds of one call after the other: for this long, and until there are enough unless that takes too long."""
    clock = time.perf_counter_ns
    calls: List[int] = []
    begin = clock()
    longest = max(seconds, MAX_SECONDS)
    while True:
        start = clock()
        function()
        end = clock()
        calls.append(end - start)
        elapsed = (end - begin) / 1e9
        enough = elapsed >= seconds and len(calls) >= needed * SPARE
        if enough or elapsed >= longest or len(calls) >= MAX_CALLS:
            return calls


class Judge:
    """The judged metrics and their margins. Defaults come from ``[gate]`` of the configuration."""

    def __init__(
        self,
        metrics: Optional[Sequence[str]] = None,
        margins: Optional[Dict[str, float]] = None,
        fail_on: Optional[str] = None,
        blocks: int = USUAL_BLOCKS,
        block_seconds: Optional[float] = None,
        max_rounds: Optional[int] = None,
    ) -> None:
        gate = json.loads(_native.gate_settings())
        # A gate may judge what only models have, such as memory; that is left to it.
        configured = [name for name in gate.get("metrics", []) if name in ("p50", "p90", "p99", "throughput")]
        names = list(metrics if metrics is not None else configured or USUAL_METRICS)
        percent = dict(gate.get("margins", {}))
        percent.update(margins or {})
        self.plans: List[Tuple[str, Optional[float]]] = [(name, percent.get(name)) for name in names]
        self.fail_on = fail_on or gate.get("fail_on") or "regression"
        self.blocks_count = blocks
        self.seconds = float(block_seconds or gate.get("block_seconds") or USUAL_SECONDS)
        self.max_rounds = int(max_rounds or gate.get("max_rounds") or 20)
        # The judge reports invalid metrics and margins.
        self.needed = _native.calls_needed(self.plans)
        foreign = sorted(set(margins or {}) - set(names))
        if foreign:
            raise ValueError("there is a margin of %s, which is not judged" % ", ".join(foreign))
        if self.fail_on not in FAIL_ON:
            raise ValueError("fail_on is %r: use %s" % (self.fail_on, ", ".join(FAIL_ON)))
        if not FEWEST_BLOCKS <= blocks <= MAX_BLOCKS:
            raise ValueError("blocks is %d: it must be from %d to %d" % (blocks, FEWEST_BLOCKS, MAX_BLOCKS))
        if not 0 < self.seconds <= 600:
            raise ValueError("block_seconds is %r: it must be above 0 and at most 600" % self.seconds)
        if not 6 <= self.max_rounds <= 20:
            raise ValueError("max_rounds is %d: it must be from 6 to 20" % self.max_rounds)

    def blocks(self, before: List[Figures], now: List[Figures]) -> "Result":
        """Blocks of now against blocks of another time."""
        return Result(self, json.loads(_native.judge_blocks(self.plans, before, now)))

    def rounds(self, block: Callable[[str], Figures]) -> "Result":
        """Two sides, ``a`` and ``b``, in turns, until it is decided. ``block(side)`` measures one."""
        rounds: List[Tuple[Figures, Figures]] = []
        while True:
            order = "ba" if _native.second_goes_first(len(rounds)) else "ab"
            measured = {side: block(side) for side in order}
            rounds.append((measured["a"], measured["b"]))
            judged = json.loads(_native.judge_rounds(self.plans, rounds, self.max_rounds))
            if judged["done"]:
                return Result(self, judged)


class Result:
    """A verdict (``pass``, ``regression``, ``improvement``, ``inconclusive``), or why there is none (``not comparable``)."""

    def __init__(self, judge: Judge, judged: Dict[str, Any]) -> None:
        self.verdict: str = judged["verdict"]
        self.summary: str = judged["summary"]
        self.verdicts: List[Dict[str, Any]] = judged.get("verdicts", [])
        unknown = self.verdict in ("inconclusive", "not comparable")
        self.failed = judge.fail_on != "never" and (
            self.verdict == "regression" or (unknown and judge.fail_on == "inconclusive")
        )

    def __str__(self) -> str:
        return "%s: %s" % (self.verdict, self.summary)

    def __repr__(self) -> str:
        return "<ortscope.benchmark.Result %s>" % self


def machine() -> Dict[str, str]:
    """Facts that decide whether figures can be compared: this machine, this Python, this ONNX Runtime."""
    facts = dict(_native.machine())
    facts["python"] = "%d.%d" % sys.version_info[:2]
    # Only if the program has it: a benchmark of something else need not.
    runtime = sys.modules.get("onnxruntime")
    if runtime is not None:
        facts["ort_version"] = str(getattr(runtime, "__version__", "unknown"))
    return facts


class Baseline:
    """Blocks of a benchmark in a file, with the machine they are of."""

    def __init__(self, path: str) -> None:
        self.path = path

    def save(self, name: str, blocks: List[Figures], facts: Dict[str, str]) -> None:
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        document = {
            "schema": SCHEMA,
            "ortscope_version": _native.__version__,
            "benchmark": name,
            "machine": facts,
            "blocks": blocks,
        }
        # Whole or not at all: a test run that is stopped leaves the old one.
        scratch = self.path + ".new"
        with open(scratch, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(scratch, self.path)

    def load(self) -> Optional[Tuple[List[Figures], Dict[str, str]]]:
        """Blocks and machine; ``None`` if there is no baseline."""
        try:
            with open(self.path, encoding="utf-8") as file:
                document = json.load(file)
            if document["schema"] != SCHEMA:
                raise ValueError("it is a %s" % document["schema"])
            blocks = [{str(key): float(value) for key, value in block.items()} for block in document["blocks"]]
            return blocks, {str(fact): str(value) for fact, value in document["machine"].items()}
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise OrtscopeError(
                "the baseline %s cannot be read: %s; hint: delete it and keep a new one" % (self.path, error)
            ) from error

    def judge(self, judge: Judge, now: List[Figures], facts: Dict[str, str]) -> Result:
        kept = self.load()
        if kept is None:
            return Result(judge, {"verdict": "not comparable", "summary": "there is no baseline %s" % self.path})
        blocks, of = kept
        differences = _native.machine_differences(of, facts)
        if differences:
            return Result(judge, {"verdict": "not comparable", "summary": ", ".join(differences)})
        return judge.blocks(blocks, now)


__all__ = ["Baseline", "Judge", "Result", "machine", "measure"]

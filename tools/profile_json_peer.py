"""Reads an ONNX Runtime profile with Python's json, as a user's script would, and sums it up by operator type.

    profile_json_peer.py PROFILE

Prints one JSON object: the speed, with the garbage collector off, and the counts and sums that any other reader of the
same file must arrive at. `mb_per_s` is what a script sees (the file is in the system's cache, decoding to text
counts); `parse_mb_per_s` is `json.loads` alone. MB are 1,000,000 bytes. This is the peer of ortscope's profile reader.
"""

import gc
import json
import os
import platform
import sys
from time import perf_counter

try:
    import resource
except ImportError:  # Windows has no getrusage.
    resource = None

SUFFIX = "_kernel_time"


def summarise(events):
    """Counts and microseconds, in all and for each operator type."""
    by_op = {}
    operators = runs = duration = 0
    for event in events:
        duration += event["dur"]
        if event["cat"] == "Node" and event["name"].endswith(SUFFIX):
            operators += 1
            entry = by_op.setdefault(event["args"]["op_name"], [0, 0])
            entry[0] += 1
            entry[1] += event["dur"]
        elif event["cat"] == "Session" and event["name"] == "model_run":
            runs += 1
    return {
        "events": len(events),
        "operators": operators,
        "runs": runs,
        "duration_us": duration,
        "by_op": dict(sorted(by_op.items())),
    }


def peak_memory_mb():
    if resource is None:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Kilobytes everywhere but on macOS, where it is bytes.
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def main(path):
    size = os.path.getsize(path)
    gc.disable()
    with open(path, "rb") as file:
        # The peer is not to pay for a cold disk.
        while file.read(1 << 20):
            pass
    start = perf_counter()
    with open(path, encoding="utf-8") as file:
        text = file.read()
    parse_start = perf_counter()
    events = json.loads(text)
    end = perf_counter()
    result = {
        "mb_per_s": size / 1e6 / (end - start),
        "parse_mb_per_s": size / 1e6 / (end - parse_start),
        "bytes": size,
        "seconds": end - start,
        "peak_memory_mb": peak_memory_mb(),
        "python": platform.python_version(),
    }
    result.update(summarise(events))
    print(json.dumps(result))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

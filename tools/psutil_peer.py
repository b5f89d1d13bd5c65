"""Samples all processes with psutil, as monitors in Python do, and says what it cost.

    psutil_peer.py --hertz HZ --seconds S [--parent PID]

Prints one JSON object: CPU time per sample of this process, what the loop achieved, its memory. `--parent`: only the
descendants of that process; without it every process. Each sample reads CPU percentage and memory of every process
through cached `Process` objects with `oneshot()`, the fast way that psutil's documentation recommends.
"""

import argparse
import json
import platform
import resource
import time

import psutil


def processes(parent):
    if parent is None:
        return list(psutil.process_iter())
    return psutil.Process(parent).children(recursive=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hertz", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--parent", type=int)
    options = parser.parse_args()
    watched = processes(options.parent)
    for process in watched:
        process.cpu_percent()
    period = 1.0 / options.hertz
    start = time.perf_counter()
    cpu_start = time.process_time()
    due, samples, rows = start, 0, 0
    while time.perf_counter() - start < options.seconds:
        for process in watched:
            try:
                with process.oneshot():
                    process.cpu_percent()
                    process.memory_info()
                rows += 1
            except psutil.NoSuchProcess:
                pass
        samples += 1
        due += period
        rest = due - time.perf_counter()
        if rest > 0:
            time.sleep(rest)
        else:
            due = time.perf_counter()
    seconds = time.perf_counter() - start
    cpu = time.process_time() - cpu_start
    print(json.dumps({
        "us_per_sample": cpu / samples * 1e6,
        "core_percent": cpu / seconds * 100,
        "achieved_hertz": samples / seconds,
        "processes": len(watched),
        "rows": rows,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        "psutil": psutil.__version__,
        "python": platform.python_version(),
    }))


if __name__ == "__main__":
    main()

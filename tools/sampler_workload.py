"""The processes that the sampler benchmark watches: 100 that mostly sleep and 4 that are busy, 300 threads in all.

    sampler_workload.py [--processes N]

Prints its own process id when all have started and lives until its input ends; then it ends them all, by their ids.
Sleepers wake twice a second; two workers burn 30 % of a core in bursts, one writes with 10 threads, one touches new
memory with 16. With `--processes` there are as many as that, all but the last four asleep with one thread each.
"""

import argparse
import multiprocessing
import os
import sys
import threading
import time


def sleeper(threads):
    def nap():
        while True:
            time.sleep(0.5)

    for _ in range(threads - 1):
        threading.Thread(target=nap, daemon=True).start()
    nap()


def duty(share):
    while True:
        end = time.perf_counter() + 0.01 * share
        while time.perf_counter() < end:
            pass
        time.sleep(0.01 * (1 - share))


def writer(threads):
    def write():
        with open(os.devnull, "wb") as sink:
            while True:
                sink.write(b"x" * 4096)
                sink.flush()
                time.sleep(0.05)

    for _ in range(threads - 1):
        threading.Thread(target=write, daemon=True).start()
    write()


def toucher(threads):
    def touch():
        while True:
            block = bytearray(1 << 16)
            block[::4096] = b"x" * (len(block) // 4096)
            time.sleep(0.1)

    for _ in range(threads - 1):
        threading.Thread(target=touch, daemon=True).start()
    touch()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int)
    options = parser.parse_args()
    multiprocessing.set_start_method("fork")
    busy = [(duty, 0.3)] * 2 + [(writer, 10), (toucher, 16)]
    if options.processes is None:
        work = [(sleeper, 1)] * 57 + [(sleeper, 5)] * 43 + busy
    else:
        work = [(sleeper, 1)] * (options.processes - len(busy)) + busy
    children = [multiprocessing.Process(target=run, args=(argument,), daemon=True) for run, argument in work]
    for child in children:
        child.start()
    print(os.getpid(), flush=True)
    sys.stdin.read()
    for child in children:
        child.terminate()
    for child in children:
        child.join()


if __name__ == "__main__":
    main()

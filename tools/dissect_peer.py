"""Reads traces with dissect.etl and says what it cost: the peer of `cargo xtask bench etl`.

    dissect_peer.py walk|full SECONDS TRACE…

Prints one JSON object. `walk` reads the header of every record; `full` also asks for all the values of every event, as
far as dissect knows its layout. An event whose layout it does not know or whose decoding fails counts as read. Reading
stops after so many seconds of CPU time for each trace, between two records: the rate is what counts.
"""

import json
import sys
from importlib.metadata import version
from time import process_time

from dissect.etl.etl import ETL


def read(path, full, seconds):
    records = values = failed = 0
    start = process_time()
    with open(path, "rb") as file:
        for record in ETL(file):
            records += 1
            if full:
                try:
                    values += len(record.event.event_values())
                except Exception:  # noqa: BLE001 - whatever a decoder trips over is a failed event
                    failed += 1
            if records % 256 == 0 and process_time() - start > seconds:
                break
    return records, values, failed, process_time() - start


def main(mode, seconds, *paths):
    traces = []
    for path in paths:
        records, values, failed, cpu = read(path, mode == "full", float(seconds))
        traces.append({"records": records, "values": values, "failed": failed, "cpu_seconds": cpu})
    print(json.dumps({"traces": traces, "dissect_etl": version("dissect.etl"), "python": sys.version.split()[0]}))


if __name__ == "__main__":
    main(*sys.argv[1:])

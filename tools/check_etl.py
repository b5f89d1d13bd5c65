"""What dissect.etl finds in a trace that ortscope wrote: rows and sums of whole numbers by event and field, as JSON.

dissect finds the records, their headers and the description that each TraceLogging event carries; the fields are read
here by that description. Used by the tests of exports.
"""

import json
import struct
import sys

from dissect.etl.etl import ETL
from dissect.etl.headers.event import ExtType

# TraceLogging's types that exports use.
TEXT, I64, U64, F64, BOOL = 2, 9, 10, 12, 13
FIXED = {I64: "<q", U64: "<Q", F64: "<d", BOOL: "<I"}


def described(schema):
    """Name and fields of an event: (name, [(field, type)])."""
    at = 2
    while schema[at] & 0x80:
        at += 1
    at += 1
    end = schema.index(0, at)
    name, at, fields = schema[at:end].decode(), end + 1, []
    while at < len(schema):
        end = schema.index(0, at)
        kind = schema[end + 1]
        fields.append((schema[at:end].decode(), kind & 0x1F))
        at = end + 2
        # A byte more says how to show it.
        while kind & 0x80:
            kind = schema[at]
            at += 1
    return name, fields


def add(sums, fields, data):
    at = 0
    for field, kind in fields:
        if kind == TEXT:
            at = data.index(0, at) + 1
            continue
        (value,) = struct.unpack_from(FIXED[kind], data, at)
        at += struct.calcsize(FIXED[kind])
        if kind != F64:
            sums[field] = sums.get(field, 0) + value
    assert at == len(data), f"{len(data) - at} bytes are left"


def main(path):
    events, known = {}, {}
    with open(path, "rb") as file:
        for record in ETL(file):
            header = record.header
            if type(header).__name__ != "EventHeader":
                continue
            used = 0
            for item in header.header_extensions:
                used += item.size
                if item.ext_type == ExtType.EVENT_SCHEMA_TL:
                    schema = bytes(item.raw_data)
                # Of the last one this bit is not set; dissect goes on into the fields.
                if not item.reserved1 & 1:
                    break
            if schema not in known:
                known[schema] = described(schema)
            name, fields = known[schema]
            event = events.setdefault(name, {"rows": 0, "sums": {}})
            event["rows"] += 1
            add(event["sums"], fields, bytes(header.payload)[used:])
    # Sums are larger than numbers of JSON may be.
    for event in events.values():
        event["sums"] = {field: str(value) for field, value in event["sums"].items()}
    print(json.dumps(events))


main(sys.argv[1])

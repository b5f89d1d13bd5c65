"""What schemathesis cannot read in the OpenAPI document of `ortscope serve`.

It gives requests recordings that exist, so that they get further than "there is no such recording", and it knows the
few rules between parameters that OpenAPI has no words for. Everything else must follow from the document alone.
"""

import json
import os
import re

import schemathesis
from hypothesis import strategies as st

# Ids that may be looked at, and ids that may be removed.
SOURCES = json.loads(os.environ.get("ORTSCOPE_API_SOURCES", "[]"))
DOOMED = json.loads(os.environ.get("ORTSCOPE_API_DOOMED", "[]"))

# Lines that a filter takes.
schemathesis.openapi.format(
    "ortscope-filter",
    st.sampled_from(["op:Conv", "op:Conv prov:CPU", "!Relu", "dur>1ms", "dur>=0.5us !Conv", "prov:NPU dur<1s", ""]),
)

# Rules between parameters: the sentence with which the server refuses what each parameter alone would allow.
BETWEEN_PARAMETERS = [
    r"'from_ms' is not before 'to_ms'",
    r"'at_ms' is for recordings",
    r"'track' is missing",
    r"'step_ms' gives more than",
    r"'(limit|cursor)' is for records, and 'width' asks",
    r"'table' must name exactly one table",
    r"gzip does not fit",
    r"records are written as JSON lines",
    r"the filter and the chosen tables have nothing in common",
    r"tables do not fit into one",
    # The filter together with 'op' and 'provider', which become a part of it.
    r"the filter is longer than",
]


def choose(values, text):
    """The same choice for the same request: a failure can be repeated."""
    return values[sum(str(text).encode()) % len(values)]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Half of the good ids become ids that exist."""
    if case.meta is not None and case.meta.generation.mode.is_negative:
        return
    text = f"{case.path_parameters}{case.query}"
    if sum(text.encode()) % 2 and case.method.upper() != "DELETE":
        return
    if case.path_parameters and "id" in case.path_parameters:
        ids = DOOMED if case.method.upper() == "DELETE" else [id for id in SOURCES if id != "live"]
        if ids:
            case.path_parameters["id"] = choose(ids, text)
    for name in ("source", "a", "b"):
        if case.query and name in case.query and SOURCES:
            case.query[name] = choose(SOURCES, text + name)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """False: not a failure."""
    if type(failure).__name__ != "RejectedPositiveData":
        return True
    if response.status_code == 426 and case.path.endswith("/ws/metrics"):
        # Valid data of HTTP; that it is no WebSocket is no matter of data.
        return False
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return True
    return not any(re.search(rule, message) for rule in BETWEEN_PARAMETERS)

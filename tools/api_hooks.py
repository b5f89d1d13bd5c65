"""What schemathesis cannot read in the OpenAPI document of `ortscope serve`.

It gives requests recordings that exist, so that they get further than "there is no such recording". Everything else must
follow from the document alone; no finding is dropped.
"""

import json
import os

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

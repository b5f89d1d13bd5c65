"""What TensorBoard's own reader, and xprof's, find in a directory: one JSON document. Used by the tests of exports."""

import json
import math
import os
import sys

from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util import tensor_util


def events(path):
    tags = {}
    for event in EventFileLoader(path).Load():
        for value in event.summary.value:
            plugin = value.metadata.plugin_data.plugin_name
            tag = tags.setdefault(value.tag, {"plugin": plugin, "count": 0, "sum": 0.0, "steps": 0, "texts": []})
            array = tensor_util.make_ndarray(value.tensor)
            tag["count"] += 1
            tag["steps"] += event.step
            if tag["plugin"] == "scalars":
                tag["sum"] += float(array.item())
            elif tag["plugin"] == "histograms":
                assert array.shape[1] == 3, array.shape
                tag["sum"] += float(array[:, 2].sum())
            else:
                tag["texts"] += [item.decode() for item in array.tolist()]
    return tags


def profile(path):
    try:
        from xprof.convert import raw_to_tool_data
    except ImportError:
        return None
    data, _ = raw_to_tool_data.xspace_to_tool_data([path], "trace_viewer", {})
    if isinstance(data, bytes):
        data = data.decode()
    lanes, processes, count, micros = {}, {}, 0, 0.0
    for event in json.loads(data)["traceEvents"]:
        if event.get("ph") == "X":
            count += 1
            micros += event["dur"]
        elif event.get("name") == "thread_name":
            lanes[event["args"]["name"]] = True
        elif event.get("name") == "process_name":
            processes[event["args"]["name"]] = True
    return {"events": count, "micros": micros, "lanes": sorted(lanes), "processes": sorted(processes)}


def main(directory):
    answer = {"events": {}, "profiles": {}}
    for place, _, names in sorted(os.walk(directory)):
        for name in names:
            path = os.path.join(place, name)
            if "tfevents" in name:
                answer["events"][os.path.relpath(path, directory)] = events(path)
            elif name.endswith(".xplane.pb"):
                answer["profiles"][os.path.relpath(path, directory)] = profile(path)
    # JSON has no word for what is not a number.
    for tags in answer["events"].values():
        for tag in tags.values():
            tag["sum"] = tag["sum"] if math.isfinite(tag["sum"]) else None
    print(json.dumps(answer))


main(sys.argv[1])

"""What the official definitions of OTLP find in request bodies: one JSON document. Used by the tests of exports."""

import json
import os
import sys

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def parsed(kind, path):
    request = kind()
    with open(path, "rb") as file:
        request.ParseFromString(file.read())
    # Fields that the definitions do not know would be kept without a word.
    again = kind()
    again.ParseFromString(request.SerializeToString())
    assert again == request
    return request


def metrics(path, answer):
    for resource in parsed(ExportMetricsServiceRequest, path).resource_metrics:
        for pair in resource.resource.attributes:
            answer["resource"][pair.key] = pair.value.string_value
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                entry = answer["metrics"].setdefault(metric.name, {"kind": kind, "points": 0, "unit": metric.unit})
                assert entry["kind"] == kind and metric.description
                entry["points"] += len(data.data_points)
                for point in data.data_points:
                    assert point.start_time_unix_nano <= point.time_unix_nano
                if kind == "sum":
                    entry["monotonic"] = data.is_monotonic
                if kind in ("sum", "gauge"):
                    entry["value"] = data.data_points[-1].as_double
                if kind in ("sum", "histogram"):
                    assert data.aggregation_temporality == 2
                if kind == "histogram":
                    last = max(data.data_points, key=lambda point: point.time_unix_nano)
                    assert len(last.bucket_counts) == len(last.explicit_bounds) + 1
                    entry.update(count=last.count, sum=last.sum, buckets=sum(last.bucket_counts))


def traces(path, answer, ids):
    for resource in parsed(ExportTraceServiceRequest, path).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                assert len(span.trace_id) == 16 and len(span.span_id) == 8
                ids.add((span.trace_id, span.span_id))
                entry = answer["inferences" if span.name == "inference" else "rows"]
                entry["spans"] += 1
                entry["nanos"] += span.end_time_unix_nano - span.start_time_unix_nano
                entry["children"] += bool(span.parent_span_id)


def main(directory):
    counts = {"spans": 0, "nanos": 0, "children": 0}
    answer = {"resource": {}, "metrics": {}, "inferences": dict(counts), "rows": dict(counts)}
    ids = set()
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if name.endswith(".metrics"):
            metrics(path, answer)
        elif name.endswith(".traces"):
            traces(path, answer, ids)
    answer["ids"] = len(ids)
    print(json.dumps(answer))


main(sys.argv[1])

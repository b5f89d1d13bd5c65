"""Two recordings side by side: medians, intervals, and no verdict."""

import ortscope
import pytest
from ortscope.comparison import median_interval


def record(name, models):
    with ortscope.Monitor(name=name) as monitor:
        for model, count in models.items():

            @monitor.monitor_inference(model)
            def work():
                return sum(range(200))

            for _ in range(count):
                work()
    return monitor.recording_id


def test_medians_with_intervals():
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, None)
    # The exact interval of 6 values is all of them, of 10 the second to the ninth.
    assert median_interval([1.0, 2, 3, 4, 5, 6]) == (3.5, (1.0, 6))
    assert median_interval([float(value) for value in range(10)]) == (4.5, (1.0, 8.0))
    median, (low, high) = median_interval([float(value) for value in range(1001)])
    assert median == 500 and 465 <= low <= 470 and 530 <= high <= 535


def test_it_compares_and_does_not_judge():
    record("before", {"a": 60, "gone": 10})
    record("after", {"a": 40, "new": 3})
    compared = ortscope.compare("before", "after")
    (row,) = compared.rows
    # The first run of a session is not a steady one.
    assert (row["model"], row["a"]["runs"], row["b"]["runs"]) == ("a", 59, 39)
    assert row["a"]["interval_ms"][0] <= row["a"]["median_ms"] <= row["a"]["interval_ms"][1]
    assert (compared.only_in_a, compared.only_in_b) == (["gone"], ["new"])
    assert not compared.is_verdict and compared.to_dict()["verdict"] is None
    assert "not a verdict" in str(compared) and "not a verdict" in compared._repr_html_()


def test_a_missing_recording_is_named():
    with pytest.raises(ortscope.RecordingError):
        ortscope.compare("nothing", "nothing")

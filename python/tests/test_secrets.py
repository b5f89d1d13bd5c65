"""A recording contains no weights, inputs, outputs or secrets of the program."""

import base64
import os
import struct
import sys

import models
import numpy
import ortscope
import pytest

WEIGHTS = [1.2345678e-7, -9.876543e12, 4.242424e-3, 7.777777e5]
VALUES = [-3.141592e-9, 2.718281e11, 6.02214e-23, 5.5555e9]
TOKEN = "planted-token-5f0d3c1b9a"
KEY = "ortscope-key-" + "5ec2e7aa" * 8


def _needles():
    """The values as bytes, and as text where possible."""
    for numbers in (WEIGHTS, VALUES):
        raw = struct.pack("<4f", *numbers)
        yield raw[:8]
        yield raw[8:]
        yield struct.pack("<d", numpy.float32(numbers[1]))
        for offset in range(3):
            yield base64.b64encode(b"\0" * offset + raw[: 15 - offset])[4:]
        for number in numbers:
            yield str(numpy.float32(number))
            yield repr(float(numpy.float32(number)))
    yield TOKEN
    yield KEY[13:]


def _texts(directory):
    """Every value of every table of the recordings in a store, with its location."""
    for entry in ortscope.recordings(directory):
        run = ortscope.Recording(entry["directory"])
        for name in run.rows:
            for column, values in run.table(name).to_dict().items():
                for value in values:
                    yield "%s.%s" % (name, column), str(value)


def _assert_clean(directory):
    """Texts are compressed in the files, so the tables are searched too."""
    needles = list(_needles())
    in_text = [needle for needle in needles if isinstance(needle, str)]
    for place, text in _texts(directory):
        for needle in in_text:
            assert needle not in text, (place, needle)
    looked_at = 0
    for place, _, names in os.walk(str(directory)):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                content = file.read()
            looked_at += 1
            for needle in needles:
                raw = needle.encode() if isinstance(needle, str) else needle
                assert raw not in content, (name, needle)
    return looked_at


def _planted(tmp_path):
    path = tmp_path / "planted.onnx"
    path.write_bytes(models.add_weights(struct.pack("<4f", *WEIGHTS)))
    return str(path)


def _run(path, **options):
    with ortscope.Monitor("planted", **options) as monitor:
        session = ortscope.MonitoredInferenceSession(path, providers=["CPUExecutionProvider"])
        for _ in range(20):
            session.run(None, {"x": numpy.array([VALUES], dtype=numpy.float32)})

        @monitor.monitor_inference("function")
        def classify(secret):
            return [secret] * 2

        classify(TOKEN)
    return monitor


def test_the_needles_would_be_found(tmp_path):
    _planted(tmp_path)
    with pytest.raises(AssertionError, match="planted.onnx"):
        _assert_clean(tmp_path)


# Only the bytes of finished segments were searched, in which a text is compressed: the check could not fail.
def test_a_text_in_a_table_would_be_found(store):
    with ortscope.Monitor() as monitor:
        for _ in range(100):
            monitor.mark("note", "a text that repeats itself is compressed: " + TOKEN)
    with pytest.raises(AssertionError, match="annotations.text"):
        _assert_clean(store)


def test_values_are_not_kept(tmp_path, store, monkeypatch):
    monkeypatch.setenv("PLANTED", TOKEN)
    monkeypatch.setattr(sys, "argv", ["serve.py", "--token", TOKEN, "--password=" + TOKEN])
    _run(_planted(tmp_path))
    assert ortscope.recordings()[0]["command"] == "serve.py --token … --password=…"
    assert _assert_clean(store) > 2


def test_an_encrypted_recording_is_read_with_its_key_alone(tmp_path, store, monkeypatch):
    monkeypatch.setenv("ORTSCOPE_KEY", KEY)
    _run(_planted(tmp_path), encrypt=True)
    assert _assert_clean(store) > 2
    for place, _, names in os.walk(str(store)):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                assert b"planted" not in file.read(), name
    entry = ortscope.recordings()[0]
    assert entry["encrypted"] and entry["name"] == "planted"
    assert len(ortscope.Recording("planted").table("inferences")) >= 20
    monkeypatch.delenv("ORTSCOPE_KEY")
    assert ortscope.recordings()[0]["name"] is None
    with pytest.raises(ortscope.RecordingError, match="is encrypted with the key"):
        ortscope.Recording("last").table("inferences")
    with pytest.raises(ortscope.RecordingError, match="no key to encrypt with"):
        _run(_planted(tmp_path), encrypt=True)

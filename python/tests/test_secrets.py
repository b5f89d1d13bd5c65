"""What a program computes with is its own: weights, inputs, outputs and secrets are in no file of a recording."""

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
    for numbers in (WEIGHTS, VALUES):
        raw = struct.pack("<4f", *numbers)
        yield raw[:8]
        yield raw[8:]
        yield struct.pack("<d", numpy.float32(numbers[1]))
        for offset in range(3):
            yield base64.b64encode(b"\0" * offset + raw[: 15 - offset])[4:]
        for number in numbers:
            yield str(numpy.float32(number)).encode()
            yield repr(float(numpy.float32(number))).encode()
    yield TOKEN.encode()
    yield KEY[13:].encode()


def _assert_clean(directory):
    looked_at = 0
    for place, _, names in os.walk(str(directory)):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                content = file.read()
            looked_at += 1
            for needle in _needles():
                assert needle not in content, (name, needle)
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
    with pytest.raises(AssertionError):
        _assert_clean(tmp_path)


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

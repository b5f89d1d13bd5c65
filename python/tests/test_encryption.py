"""Encrypted recordings from Python: never in the clear unasked, and read again by who named their key."""

import os
import sys

import numpy
import ortscope
import pytest
from ortscope import _engine

CPU = ["CPUExecutionProvider"]


def write_key(path, digits):
    """Its owner's alone: others are refused."""
    with os.fdopen(os.open(str(path), os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        file.write("ortscope-key-" + digits * 8)
    return path


@pytest.fixture(autouse=True)
def no_other_key(monkeypatch):
    monkeypatch.delenv("ORTSCOPE_KEY", raising=False)


@pytest.fixture
def key_file(tmp_path):
    return write_key(tmp_path / "key", "0ddba11f")


# Whoever came second was recorded as the first had wanted it: in the clear, and without a word.
def test_who_asks_for_encryption_does_not_join_a_plain_recording(identity, key_file):
    wanted = {"encrypt": True, "key_file": key_file}
    ortscope.MonitoredInferenceSession(identity, providers=CPU)
    for begin in (
        lambda: ortscope.Monitor(**wanted).start(),
        lambda: ortscope.patch(**wanted),
        lambda: ortscope.MonitoredInferenceSession(identity, providers=CPU, monitoring_config=wanted),
    ):
        with pytest.raises(ortscope.MonitorError, match="that recording is not encrypted; hint: end it first"):
            begin()
    assert not ortscope.is_patched()
    ortscope.stop()
    with ortscope.Monitor(**wanted):
        ortscope.Monitor(encrypt=True).start().stop()
        ortscope.Monitor().start().stop()
    assert [entry["encrypted"] for entry in ortscope.recordings()] == [True, False]
    # A live view keeps nothing.
    with ortscope.Monitor(record=False):
        ortscope.Monitor(encrypt=True).start().stop()


def test_patch_and_sessions_can_begin_an_encrypted_recording(identity, key_file):
    config = {"encrypt": True, "key_file": key_file}
    ortscope.patch(**config)
    assert ortscope.stop()["id"]
    ortscope.unpatch()
    session = ortscope.MonitoredInferenceSession(identity, providers=CPU, monitoring_config=config)
    session.run(None, {"x": numpy.ones((2, 4), dtype=numpy.float32)})
    assert ortscope.stop()["rows"]["inferences"] == 1
    assert [entry["encrypted"] for entry in ortscope.recordings()] == [True, True]


# The same below an observer: it decides, and may not encrypt.
@pytest.mark.parametrize("flags", [[], ["--encrypt"]])
def test_requested_encryption_rejects_a_plain_recording(run_script, key_file, flags):
    script = """
        import ortscope
        try:
            ortscope.Monitor(encrypt=True).start().mark("joined")
        except ortscope.MonitorError as error:
            print(error)
    """
    launcher = ["-m", "ortscope", "record", "--key-file", str(key_file)] + flags
    done = run_script(script, launcher=launcher)
    assert done.returncode == 0, done.stderr
    assert ("does not encrypt the recording; hint:" in done.stdout) == (not flags), done.stdout
    assert [entry["encrypted"] for entry in ortscope.recordings()] == [bool(flags)]


def test_an_observer_with_unknown_encryption_is_rejected(tmp_path, monkeypatch):
    monkeypatch.setenv("ORTSCOPE_CHANNEL", str(tmp_path))
    with pytest.raises(ortscope.MonitorError, match="which does not encrypt the recording"):
        ortscope.Monitor(encrypt=True).start()
    assert _engine.observer() is None and not _engine.is_observed_by_other()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_fork_does_not_join_its_parents_plain_recording(run_script, key_file):
    script = """
        import os, sys
        import ortscope
        encrypted = sys.argv[1] == "True"
        with ortscope.Monitor(encrypt=encrypted, key_file=sys.argv[2]):
            child = os.fork()
            if child == 0:
                try:
                    ortscope.Monitor(encrypt=True).start()
                except ortscope.MonitorError:
                    os._exit(3)
                os._exit(4)
            print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
    """
    for encrypted, answer in ((False, "3"), (True, "4")):
        done = run_script(script, str(encrypted), str(key_file))
        assert done.stdout.strip() == answer, done.stderr


# Regression: later calls searched keys without the monitor's file, so the new recording could not be read.
def test_a_recording_with_a_key_file_is_readable_afterwards(tmp_path, key_file, monkeypatch):
    other = write_key(tmp_path / "other", "deadbea7")
    for name, file in (("first", key_file), ("second", other), ("third", key_file)):
        with ortscope.Monitor(name, encrypt=True, key_file=os.path.relpath(str(file))) as monitor:
            monitor.mark(name, "inside " + name)
    # Where the file is does not depend on where the program goes.
    monkeypatch.chdir(tmp_path)
    with ortscope.Monitor("plain"):
        pass
    entries = ortscope.recordings()
    assert [entry["name"] for entry in entries] == ["plain", "third", "second", "first"]
    assert [entry["problem"] for entry in entries] == [None] * 4
    for entry in entries[1:]:
        for run in (entry["name"], entry["id"], entry["directory"]):
            assert "inside " + entry["name"] in ortscope.Recording(run).table("annotations").column("text")
    ortscope.Recording("last")
    # Known for reading only: encrypting needs an explicit key.
    with pytest.raises(ortscope.RecordingError, match="no key to encrypt with"):
        ortscope.Monitor(encrypt=True).start()
    # A missing key does not prevent reading the others.
    os.remove(str(other))
    ortscope.Recording("first")
    with pytest.raises(ortscope.RecordingError, match="is encrypted with the key"):
        ortscope.Recording(entries[2]["id"])


# The program was started without the monitor's key file, and could not open the recording.
def test_the_program_receives_the_key_file(tmp_path, key_file, program):
    other = write_key(tmp_path / "other", "deadbea7")
    with ortscope.Monitor("first", encrypt=True, key_file=key_file) as first:
        first.mark("note")
    with ortscope.Monitor("second", encrypt=True, key_file=other) as second:
        second.mark("note")
    for monitor in (first, second):
        assert "<html" in monitor.to_html()
        assert "<html" in ortscope.Recording(monitor.recording_id).to_html()
    # Also that the file is named as the program wants it: its format was named in its place.
    ortscope.Recording("first").export(tmp_path / "first.json")
    assert (tmp_path / "first.json").stat().st_size > 0


# Rings are in the clear. They were removed as they were, and their bytes stayed where they had been.
@pytest.mark.skipif(sys.platform == "win32", reason="a file that is open is not removed")
def test_rings_of_an_encrypted_recording_are_overwritten(key_file):
    secret = b"seen by the ring alone"
    with ortscope.Monitor(encrypt=True, key_file=key_file) as monitor:
        monitor.mark("note", secret.decode())
        own = str(_engine.observer().own_channel)
        rings = [open(os.path.join(own, name), "rb") for name in os.listdir(own)]
        assert any(secret in ring.read() for ring in rings)
    for ring in rings:
        ring.seek(0)
        assert secret not in ring.read()
        ring.close()
    assert not os.path.exists(own)

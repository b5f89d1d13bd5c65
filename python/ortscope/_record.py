"""``python -m ortscope record app.py``: runs an unmodified Python program and records its inferences.

The program, and every Python that it starts, writes into shared memory; this process reads it. So a program that is
killed loses nothing that was finished.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from typing import Any, List

from . import _native
from .errors import OrtscopeError
from .summary import Summary

_INJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_inject")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ortscope record", description="Run a Python program and record its ONNX Runtime inferences."
    )
    parser.add_argument("--save", metavar="NAME", help="a name of your own for the recording")
    parser.add_argument("--store", metavar="DIR", help="directory of recordings")
    parser.add_argument("--encrypt", action="store_true", default=None, help="encrypt the recording")
    parser.add_argument("--key-file", metavar="FILE", help="the file of the key to encrypt with")
    parser.add_argument("--rate", type=float, default=50.0, metavar="HZ", help="samples of the process per second")
    parser.add_argument(
        "--profile-every",
        type=int,
        default=100,
        metavar="N",
        help="profile the operators of one run in N, with ONNX Runtime 1.25 and newer; 0: of none [100]",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON on standard output")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    parser.add_argument("program", help="script or module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the program")
    return parser


def environment(channel: str, profile_every: Any = None) -> dict:
    """The environment variables that instrument a program."""
    variables = dict(os.environ)
    variables[_native.CHANNEL_VARIABLE] = channel
    before = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = _INJECT + (os.pathsep + before if before else "")
    variables.pop("ORTSCOPE_PROFILE_EVERY", None)
    if profile_every:
        variables["ORTSCOPE_PROFILE_EVERY"] = str(profile_every)
    return variables


def main(arguments: List[str]) -> int:
    given = arguments[1:] if arguments[:1] == ["--"] else arguments
    options = _parser().parse_args(given)
    if options.profile_every < 0:
        _parser().error("--profile-every must not be negative")
    command = [sys.executable] + (["-m"] if options.module else []) + [options.program] + options.arguments
    try:
        return _run(command, options)
    except OrtscopeError as error:
        sys.stderr.write("error: %s\n" % error)
        return 1


def _run(command: List[str], options: Any) -> int:
    # Our own process is sampled until the program's is known: it costs nothing, and children are followed.
    observer = _native.Observer(
        subject=os.path.basename(options.program),
        origin="record",
        pids=[os.getpid()],
        children=True,
        sampling_hz=options.rate,
        record=True,
        store=options.store,
        name=options.save,
        command=command,
        encrypt=options.encrypt,
        key_file=options.key_file,
    )
    reason = "the program ended"
    code = 1
    try:
        program = subprocess.Popen(command, env=environment(str(observer.channel), options.profile_every))
        while True:
            try:
                code = program.wait()
                break
            except KeyboardInterrupt:
                # The terminal has sent the signal to the program too: let it end in its own way.
                reason = "interrupted"
    except OSError as error:
        sys.stderr.write("error: the program cannot be started: %s\n" % error)
        reason = "the program could not be started"
    finally:
        observer.flush()
        summary = Summary(json.loads(observer.statistics()), observer.recording_id)
        result = json.loads(observer.stop(reason) or "{}")
    if code < 0:
        sys.stderr.write("the program was ended by signal %s\n" % _signal_name(-code))
    if options.json:
        print(json.dumps({"schema": "ortscope.python.record/1", "summary": summary.data, "recording": result}))
    else:
        sys.stderr.write("%s\n" % summary)
    for loss in result.get("losses", []):
        sys.stderr.write("lost: %(count)d %(kind)s at %(place)s\n" % loss)
    for error in result.get("errors", []):
        sys.stderr.write("warning: %s\n" % error)
    return code if code >= 0 else 128 - code


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)

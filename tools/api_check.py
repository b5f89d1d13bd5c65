#!/usr/bin/env python3
"""Runs schemathesis with all checks against a real `ortscope serve`, over a live machine and a real recording.

    api_check.py --program ortscope --cases 10000 [--model m.onnx --ort-library LIB]

Prints `N cases, no failure` last; the exit code is 0 only without failures and with at least as many cases as asked for.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

TOOLS = pathlib.Path(__file__).resolve().parent


def call(base, token, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(base + path, data=data, headers=headers, method=method)
    # Loopback: no proxy of the environment has any business here.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def recordings(base, token):
    return [entry["id"] for entry in call(base, token, "GET", "/api/v1/recordings")["recordings"]]


def short_recording(base, token):
    call(base, token, "POST", "/api/v1/control/record/start", {"name": None})
    time.sleep(0.5)
    call(base, token, "POST", "/api/v1/control/record/stop", {})


def schemathesis_run(arguments, base, token, directory, environment):
    """The exit code and how many cases there were."""
    command = [
        str(pathlib.Path(sys.executable).with_name("schemathesis")),
        "--config-file", str(TOOLS / "schemathesis.toml"),
        "run", f"{base}/api/v1/openapi.json",
        "--header", f"Authorization: Bearer {token}",
        "--checks", "all",
        "--max-examples", str(arguments.examples),
        "--phases", arguments.phases,
        "--seed", str(arguments.seed),
        "--continue-on-failure",
    ]
    if arguments.most_seconds:
        command += ["--max-time", str(arguments.most_seconds)]
    cases = 0
    with subprocess.Popen(command, env=environment, cwd=directory, stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            print(line, end="", flush=True)
            generated = re.search(r"([0-9]+) generated", line)
            cases = int(generated[1]) if generated else cases
    return run.returncode, cases


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--cases", type=int, required=True, help="cases that there must be")
    parser.add_argument("--examples", type=int, required=True, help="generated examples of each operation")
    parser.add_argument("--phases", default="examples,coverage,fuzzing,stateful")
    parser.add_argument("--most-seconds", type=int, help="ends by itself after this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model")
    parser.add_argument("--ort-library")
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory(prefix="ortscope-api-") as name:
        directory = pathlib.Path(name)
        environment = dict(os.environ)
        environment["ORTSCOPE_STATE"] = str(directory / "state")
        environment["ORTSCOPE_STORE"] = str(directory / "store")
        environment["SCHEMATHESIS_HOOKS"] = str(TOOLS / "api_hooks.py")
        for proxy in ("http_proxy", "https_proxy", "all_proxy"):
            environment.pop(proxy, None)
            environment.pop(proxy.upper(), None)
        ortscope = lambda *words: subprocess.run(
            [arguments.program, *words], env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        token = ortscope("token", "create", "fuzz", "--role", "admin", "-q").strip()
        if arguments.model:
            library = ["--ort-library", arguments.ort_library] if arguments.ort_library else []
            ortscope("run", arguments.model, "--runs", "200", "-q", *library)
        server = subprocess.Popen(
            [arguments.program, "serve", "--listen", "127.0.0.1:0", "--json"],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        try:
            base = "http://" + json.loads(server.stdout.readline())["addresses"][0]
            kept = recordings(base, token)
            if not kept:
                short_recording(base, token)
                kept = recordings(base, token)
            for _ in range(3):
                short_recording(base, token)
            doomed = [id for id in recordings(base, token) if id not in kept]
            environment["ORTSCOPE_API_SOURCES"] = json.dumps(["live", *kept])
            environment["ORTSCOPE_API_DOOMED"] = json.dumps(doomed)
            status, cases = schemathesis_run(arguments, base, token, directory, environment)
            if server.poll() is not None:
                print(f"the server ended with {server.returncode}")
                return 1
        finally:
            server.terminate()
            server.wait(30)
        print(f"{cases} cases, {'no failure' if status == 0 else 'with failures'}")
        if cases < arguments.cases:
            print(f"too few cases: {arguments.cases} were asked for")
            return 1
        return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())

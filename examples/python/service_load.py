"""The service of `service.py` under load: starts it, sends requests from several clients, prints what was seen.

    python service_load.py model.onnx [REQUESTS]

Needs fastapi, uvicorn and httpx.
"""

import asyncio
import os
import socket
import subprocess
import sys
import time

import httpx

CLIENTS = 4


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


async def load(base: str, requests: int) -> dict:
    async with httpx.AsyncClient(base_url=base, timeout=30, trust_env=False) as client:
        for attempt in range(300):
            try:
                await client.get("/statistics")
                break
            except httpx.TransportError:
                if attempt == 299:
                    raise
                await asyncio.sleep(0.1)

        async def one_client() -> None:
            for _ in range(requests // CLIENTS):
                (await client.post("/predict", json=[1, 2, 3, 4])).raise_for_status()

        begun = time.perf_counter()
        await asyncio.gather(*(one_client() for _ in range(CLIENTS)))
        took = time.perf_counter() - begun
        seen = (await client.get("/statistics")).json()
    print("%.0f requests per second" % (requests // CLIENTS * CLIENTS / took))
    return seen


def main(model: str, requests: int = 200) -> None:
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port), "--log-level", "warning"]
    here = os.path.dirname(os.path.abspath(__file__))
    service = subprocess.Popen(command, cwd=here, env=dict(os.environ, MODEL=os.path.abspath(model)))
    try:
        seen = asyncio.run(load("http://127.0.0.1:%d" % port, requests))
    finally:
        # As a process manager does; the recording is finished on the way out.
        service.terminate()
        service.wait(30)
    (session,) = [session for session in seen["sessions"] if session["count"]]
    print("%d inferences, p50 %.3f ms" % (session["count"], session["percentiles_ms"]["p50"]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200)

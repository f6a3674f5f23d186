"""`dmltune serve` as a process: the embeddings of `embed`, the neighbours of `query`, and its limits."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fork_server import ForkedProcess, run_command

import dmltune

from .conftest import NAME, Shop, png_that_claims


@dataclass(frozen=True)
class Server:
    address: str
    process: ForkedProcess

    def ask(self, path: str, body: bytes | None = None, kind: str = "image/png") -> tuple[int, Any]:
        """Return the status and the JSON document of the answer."""
        request = urllib.request.Request(self.address + path, body, {"Content-Type": kind})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())


def as_json(*images: bytes) -> bytes:
    return json.dumps({"images": [base64.b64encode(image).decode() for image in images]}).encode()


@pytest.fixture(scope="module")
def server(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    environment = {**os.environ, "DMLTUNE_STORE": shop.root}
    done = run_command(("index", NAME, str(shop.photos), "-o", "p.index"), folder, environment, 120)
    assert done.returncode == 0, done.stderr
    words = ("serve", NAME, "--index", "p.index", "--port", "0", "--max-mb", "1", "--max-images", "4")
    with open(folder / "out", "w") as out, open(folder / "err", "w") as errors:
        process = ForkedProcess(
            (*words, "--max-megapixels", "1", "-f", "json"), folder, environment, out, errors
        )
    try:
        deadline = time.monotonic() + 120
        while not (text := (folder / "out").read_text()).endswith("}\n"):
            assert process.poll() is None, (folder / "err").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield Server(json.loads(text)["address"], process)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert "Traceback" not in (folder / "err").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)


@pytest.fixture
def files(shop: Shop) -> list[Path]:
    return sorted(shop.photos.rglob("*.png"))


def test_it_embeds_as_the_python_call_does(shop: Shop, server: Server, files: list[Path]) -> None:
    expected = dmltune.load(NAME, store=shop.store).embed(files[:3])
    status, one = server.ask("/embed", files[0].read_bytes())
    assert status == 200
    np.testing.assert_allclose(one["embeddings"], expected[:1], atol=1e-5)
    status, several = server.ask(
        "/embed", as_json(*(file.read_bytes() for file in files[:3])), "application/json"
    )
    assert (status, several["dim"]) == (200, 16)
    np.testing.assert_allclose(several["embeddings"], expected, atol=1e-5)


def test_it_searches_and_says_what_it_is(shop: Shop, server: Server, files: list[Path]) -> None:
    status, answer = server.ask("/search?k=3", files[7].read_bytes())
    assert status == 200
    (row,) = answer["results"]
    assert [each["rank"] for each in row] == [1, 2, 3]
    assert row[0]["path"] == str(files[7])
    assert row[0]["label"] == files[7].parent.name
    assert server.ask("/search?k=3&rerank=k-reciprocal", files[7].read_bytes())[0] == 200
    status, facts = server.ask("/model")
    assert (status, facts["name"], facts["index"]["images"]) == (200, NAME, 36)
    assert server.ask("/health")[1] == {"status": "ok", "fingerprint": facts["fingerprint"]}
    assert server.address.startswith("http://127.0.0.1:")


def test_the_page_of_the_server_refers_to_nothing_elsewhere(server: Server) -> None:
    for path in ("/", "/docs"):
        with urllib.request.urlopen(server.address + path, timeout=60) as answer:
            text = answer.read().decode()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "POST /search?k=10" in text
        assert f"{server.address}/search?k=5" in text
        assert "<script" not in text
        assert set(re.findall(r"https?://[^/ <&]*", text)) == {server.address}
    assert server.ask("/redoc")[0] == 404


def test_what_it_refuses_is_json_with_a_code(server: Server, files: list[Path]) -> None:
    good = files[0].read_bytes()
    header = png_that_claims(2000, 2000)
    cases: list[tuple[str, bytes | None, str, int, str]] = [
        ("/embed", b"hello", "image/png", 400, "unreadable_image"),
        ("/embed", good[:40], "image/png", 400, "unreadable_image"),
        ("/embed", header, "image/png", 400, "unreadable_image"),
        ("/embed", b"", "image/png", 400, "empty"),
        ("/embed", good, "text/plain", 415, "content_type"),
        ("/embed", b"{", "application/json", 400, "json"),
        ("/embed", b"[1]", "application/json", 400, "json"),
        ("/embed", b'{"images": ["?"]}', "application/json", 400, "base64"),
        ("/embed", b'{"images": []}', "application/json", 400, "empty"),
        ("/embed", as_json(*[good] * 5), "application/json", 413, "too_many_images"),
        ("/embed", b"x" * 1_000_001, "image/png", 413, "too_large"),
        ("/search?k=0", good, "image/png", 422, "parameter"),
        ("/search?rerank=best", good, "image/png", 422, "parameter"),
        ("/nothing", None, "image/png", 404, "http"),
        ("/embed", None, "image/png", 405, "http"),
    ]
    for path, body, kind, status, code in cases:
        answer = server.ask(path, body, kind)
        assert (answer[0], answer[1]["error"]["code"]) == (status, code), (path, answer)
        assert "\n" not in answer[1]["error"]["message"]
    assert "more than 1,000,000 pixels" in server.ask("/embed", header)[1]["error"]["message"]
    assert server.ask("/health")[0] == 200


def test_a_body_without_a_length_is_limited_too(server: Server) -> None:
    host, port = server.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        head = f"POST /embed HTTP/1.1\r\nHost: {host}\r\nContent-Type: image/png\r\n"
        client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"%x\r\n" % 100_000 + b"x" * 100_000 + b"\r\n"
        try:
            for _ in range(12):
                client.sendall(chunk)
        except OSError:
            pass  # it has hung up
        assert b" 413 " in client.recv(4096)

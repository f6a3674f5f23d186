"""`dmltune serve` under requests that are wrong, huge, slow, or of a page in somebody's browser."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import Iterator

import psutil
import pytest
from support.attacked_server import MOST, PATIENCE, SECONDS, Server, answer_of, attacked_server

import dmltune
from dmltune.serving import http_app, http_guard
from dmltune.serving.pictures import LateError

from .conftest import NAME, Shop, png_that_claims


@pytest.fixture(scope="module")
def server(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    image = sorted(shop.photos.rglob("*.png"))[0].read_bytes()
    log = tmp_path_factory.mktemp("attacks") / "log"
    with attacked_server(dmltune.load(NAME, store=shop.store), image, log) as running:
        yield running


@pytest.fixture(autouse=True)
def _is_well_afterwards(server: Server) -> Iterator[None]:
    """Each attack leaves a server that answers at once, has not grown, and has written nothing."""
    before = psutil.Process().memory_info().rss
    yield
    began = time.monotonic()
    assert server.get()[0] == 200
    assert time.monotonic() - began < PATIENCE
    assert psutil.Process().memory_info().rss - before < 300e6


def test_only_requests_that_name_this_server_are_answered(server: Server) -> None:
    own = f"127.0.0.1:{server.port}"
    good = ("127.0.0.1", own, "localhost", f"localhost:{server.port}", "LOCALHOST", "[::1]:80", "192.0.2.7")
    for host in (*good, "shop.example", "Shop.Example:443"):
        assert server.get("/model", host)[0] == 200, host
    rebound = ("attacker.example", "127.0.0.1.attacker.example", "10.attacker.example", "localhost.attacker")
    odd = (
        "a@127.0.0.1",
        "127.0.0.1/x",
        "127.0.0.1:x",
        "127.0.0.1#",
        "[::1",
        "127.1",
        "2130706433",
        "0x7f000001",
    )
    for host in (*rebound, *odd, "127.0.0.1, attacker.example", "xn--lcalhost-54a", " "):
        status, answer = server.get("/model", host)
        assert status in (400, 421), (host, answer)
        assert b"fingerprint" not in answer
    twice = f"Host: {own}\r\n"
    assert server.get("/model", "attacker.example", twice)[0] in (400, 421)
    assert server.send(b"GET /model HTTP/1.1\r\n\r\n")[0] == 400
    assert server.send(b"GET /model HTTP/1.0\r\n\r\n")[0] == 421


def test_pages_of_other_origins_get_nothing(server: Server) -> None:
    own = f"127.0.0.1:{server.port}"
    for origin in ("https://attacker.example", "null", f"https://{own}", "http://127.0.0.1:1"):
        status, answer = server.post(server.image, more=f"Origin: {origin}\r\n")
        assert status == 403
        assert b"access-control" not in answer.lower()
    status, answer = server.post(server.image, more=f"Origin: http://{own}\r\n")
    assert status == 200
    assert b"access-control" not in answer.lower()
    preflight = f"OPTIONS /embed HTTP/1.1\r\nHost: {own}\r\nOrigin: https://attacker.example\r\n"
    preflight += "Access-Control-Request-Method: POST\r\nConnection: close\r\n\r\n"
    status, answer = server.send(preflight.encode())
    assert status == 403
    assert b"access-control" not in answer.lower()


def test_answers_are_no_documents_of_a_browser(server: Server) -> None:
    _, answer = server.get("/model")
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"x-content-type-options: nosniff" in head
    assert b"x-frame-options: deny" in head
    assert b"\r\nserver:" not in head


def embed(head: str, body: bytes = b"") -> bytes:
    return f"POST /embed HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}\r\n\r\n".encode("latin-1") + body


PNG, JSON = "Content-Type: image/png\r\n", "Content-Type: application/json\r\n"
HOST = "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
RAW: dict[str, tuple[bytes, tuple[int, ...]]] = {
    "length of 19 digits": (embed(f"{PNG}Content-Length: 9223372036854775807"), (413,)),
    "length of 5000 digits": (embed(f"{PNG}Content-Length: {'9' * 5000}"), (400, 413)),
    "length below zero": (embed(f"{PNG}Content-Length: -1"), (400,)),
    "two lengths": (embed(f"{PNG}Content-Length: 3\r\nContent-Length: 4", b"abcd"), (400,)),
    "length and chunks": (
        embed(f"{PNG}Content-Length: 3\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
        (400, 413),
    ),
    "a chunk of no number": (embed(f"{PNG}Transfer-Encoding: chunked", b"xyz\r\nabc\r\n"), (400,)),
    "a chunk of 2**64": (embed(f"{PNG}Transfer-Encoding: chunked", b"f" * 16 + b"\r\nabc"), (400, 408, 0)),
    "a long chunk extension": (
        embed(f"{PNG}Transfer-Encoding: chunked", b"1;" + b"a" * 200_000 + b"\r\na\r\n"),
        (400, 413),
    ),
    "chunks without end": (embed(f"{PNG}Transfer-Encoding: chunked", b"1\r\na\r\n"), (408,)),
    "an unknown encoding": (embed(f"{PNG}Transfer-Encoding: gzip", b"abc"), (400, 501)),
    "a body that does not come": (embed(f"{PNG}Content-Length: 500", b"abc"), (408,)),
    "a compressed body": (
        embed(f"{JSON}Content-Encoding: gzip\r\nContent-Length: 3", b"\x1f\x8b\x08"),
        (400, 415),
    ),
    "a header of 200 kB": (f"GET / HTTP/1.1\r\nX: {'a' * 200_000}\r\n{HOST}".encode(), (400, 431)),
    "ten thousand headers": (
        b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"Host: 127.0.0.1\r\n\r\n",
        (200, 400, 431),
    ),
    "a path of 100 kB": (f"GET /{'a' * 100_000} HTTP/1.1\r\n{HOST}".encode(), (400, 404, 414)),
    "a query of 60 kB": (
        f"GET /health?{'a=b&' * 15_000} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode(),
        (200, 400, 414),
    ),
    "a header folded over lines": (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n folded\r\n\r\n", (400, 421)),
    "a null in a header": (b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \0\r\n\r\n", (400,)),
    "line feeds alone": (b"GET /health HTTP/1.1\nHost: attacker.example\n\n", (400, 421)),
    "no HTTP": (b"\xff\xfe\x00 nothing \r\n\r\n", (400,)),
    "HTTP/0.9": (b"GET /\r\n\r\n", (400,)),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 405, 421, 505)),
    "HTTP/9.9": (b"GET /health HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", (200, 400, 505)),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500) + b"\r\n\r\n", (400,)),
    "a method of 9 kB": (b"A" * 9000 + b" / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (400, 404, 405, 501)),
    "TRACE": (b"TRACE /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", (405,)),
    "CONNECT": (b"CONNECT a:80 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", (400, 404, 405)),
    "an upgrade": (
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        (200, 400),
    ),
    "an expectation": (embed(f"{PNG}Expect: 100-continue\r\nContent-Length: 99999999"), (413,)),
    "an address of others": (f"GET http://a.example/model HTTP/1.1\r\n{HOST}".encode(), (404,)),
}  # fmt: skip


@pytest.mark.parametrize("name", RAW)
def test_what_is_no_good_http_is_refused_in_time(server: Server, name: str) -> None:
    content, statuses = RAW[name]
    began = time.monotonic()
    status, answer = server.send(content, half_close=name in ("an upgrade",))
    assert status in statuses, answer[:500]
    assert time.monotonic() - began < PATIENCE
    assert b"Traceback" not in answer


PATHS = (
    *(
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/..%5c..%5cwindows",
        "/static/../../x",
    ),
    *(
        "/model/../../etc/passwd",
        "/%00",
        "/%ff%fe",
        "/model%0d%0aX:%20y",
        "/docs/../../../etc/passwd",
        "/.git/config",
    ),
    *("/openapi.json/../x", "/embed;x", "/file:///etc/passwd"),
)


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_a_file(server: Server, path: str) -> None:
    status, answer = server.get(path)
    assert status in (400, 404, 405)
    assert b"root:" not in answer
    assert b"\r\nX: y" not in answer


def bodies() -> dict[str, tuple[bytes, str, tuple[int, ...]]]:
    as_json, deep = "application/json", b"[" * 900_000
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    bomb = json.dumps({"images": [base64.b64encode(png_that_claims(60_000, 60_000)).decode()]}).encode()
    multipart = b"--x\r\nContent-Disposition: form-data; name=file\r\n\r\n"
    return {
        "nested lists": (deep, as_json, (413,)),
        "nested images": (b'{"images":' + b"[" * 90 + b"1" + b"]" * 90 + b"}", as_json, (400,)),
        "a million objects": (b'{"images": [' + b"{}," * 300_000 + b"{}]}", as_json, (413,)),
        "a million texts": (b'{"images": [' + b'"",' * 200_000 + b'""]}', as_json, (413,)),
        "a number of 900 kB": (b'{"images": ' + b"9" * 900_000 + b"}", as_json, (400,)),
        "NaN": (b'{"images": [NaN]}', as_json, (400,)),
        "a surrogate": (b'{"images": ["\\ud800"]}', as_json, (400,)),
        "no UTF-8": (b'{"images": ["\xff"]}', as_json, (400,)),
        "UTF-16": ('{"images": ["AAAA"]}'.encode("utf-16"), as_json, (400,)),
        "twice": (b'{"images": ["AAAA"], "images": 1}', as_json, (400,)),
        "base64 of a bomb": (bomb, as_json, (400,)),
        "base64 of nothing": (b'{"images": [""]}', as_json, (400,)),
        "base64 in lines": (b'{"images": ["AA\\nAA"]}', as_json, (400,)),
        "a multipart form": (multipart, "multipart/form-data; boundary=x", (415,)),
        "a form without boundary": (multipart, "multipart/form-data", (415,)),
        "a form of a page": (b"images=x", "application/x-www-form-urlencoded", (415,)),
        "text": (b'{"images": []}', "text/plain", (415,)),
        "no type": (b"x", "", (415,)),
        "a long type": (b"x", "a/" + "b" * 9000, (415,)),
        "a type with odd letters": (b"x", "image\xff/png", (415,)),
        "EPS": (eps, "image/eps", (400,)),
        "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", (400,)),
        "PDF": (b"%PDF-1.4\n%%EOF", "application/octet-stream", (400,)),
        "a zip": (b"PK\3\4" + bytes(100), "application/octet-stream", (400,)),
        "a huge PNG": (png_that_claims(2**31 - 1, 2**31 - 1), "image/png", (400,)),
        "a PNG above the limit": (png_that_claims(1001, 1000), "image/png", (400,)),
        "zeros": (bytes(900_000), "image/png", (400,)),
    }


@pytest.mark.parametrize("name", bodies())
def test_a_body_that_makes_no_sense_is_json_with_a_code(server: Server, name: str) -> None:
    body, kind, statuses = bodies()[name]
    status, answer = server.post(body, kind)
    assert status in statuses, answer[:500]
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"]
    assert len(error["message"]) < 400
    assert error["message"].isprintable()


def test_slow_clients_do_not_keep_others_waiting(server: Server) -> None:
    """Heads and bodies that do not arrive: more than bodies may wait, and all are closed in time."""
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(60)]
        for number, client in enumerate(slow):
            if number % 3:
                client.sendall(embed(f"{PNG}Content-Length: 900", b"x" * number))
            else:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: 127")
        began = time.monotonic()
        assert server.post(server.image)[0] == 200
        assert time.monotonic() - began < SECONDS
        for number, client in enumerate(slow):
            answer = answer_of(client)
            assert (b" 408 " in answer) if number % 3 else not answer
        assert time.monotonic() - began < PATIENCE + SECONDS


def test_a_connection_that_says_nothing_is_closed(server: Server) -> None:
    with server.connect() as client:
        assert answer_of(client) == b""
    with server.connect() as client:  # after a request, too
        client.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b" 200 " in answer_of(client)
        client.sendall(b"GET /hea")
        assert answer_of(client) == b""


def test_the_bytes_of_all_requests_together_are_limited(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(http_app.WAITING + 3)]
        for client in clients:
            with contextlib.suppress(ConnectionError):
                client.sendall(embed(f"{PNG}Content-Length: {MOST}", b"x" * (MOST - 1)))
        answers = [answer_of(client) for client in clients]
        assert sum(b" 503 " in answer for answer in answers) >= 1
        assert sum(b" 408 " in answer for answer in answers) >= http_app.WAITING - 1
        assert any(b'"busy"' in answer for answer in answers)


def test_connections_are_limited(server: Server) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(http_guard.CONNECTIONS + 5):
            stack.enter_context(server.connect())
        time.sleep(0.2)
        assert server.get()[0] == 503
        time.sleep(SECONDS)
    time.sleep(0.3)


def test_images_that_take_too_long_are_given_up(shop: Shop, server: Server) -> None:
    model = dmltune.load(NAME, store=shop.store)
    late = model.pictures([server.image] * 3, deadline=time.monotonic() - 1)
    with pytest.raises(LateError, match="take too long"):
        model.embed_pictures(late)

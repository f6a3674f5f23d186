"""The HTTP interface: POST /embed, POST /search, GET /health, GET /model. docs/serving.md describes it.

A request has the bytes of one image, or JSON with images in base64. Its size is limited before it is read,
the pixels of an image before it is decoded, and the bytes of all requests together. `http_guard` refuses what
comes from other hosts.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from dmltune.data.decoding import SERVED_PIXELS
from dmltune.errors import UserError, parse_json
from dmltune.serving.http_guard import Guard
from dmltune.serving.http_page import HEADERS, page
from dmltune.serving.index import ImageIndex
from dmltune.serving.model import LoadedModel, Vectors
from dmltune.serving.pictures import LateError

BINARY = ("image/", "application/octet-stream")
WAITING = 4  # times the largest request: the bytes of all requests that are in memory
_SECONDS = 30.0  # for a request's body to arrive, for its turn, and for its images to be read
_PARTS = 100  # commas and brackets of a JSON body besides those between its images


@dataclass(frozen=True)
class RequestLimits:
    """The largest request in bytes, the most pixels of an image, and the most images of a request."""

    bytes: int = 32_000_000
    pixels: int = SERVED_PIXELS
    images: int = 64


class RequestError(Exception):
    """A request that is refused: the HTTP status, a word for programs, and one line for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def busy() -> RequestError:
    return RequestError(503, "busy", "too many requests are under way; try again later")


class Memory:
    """The bytes of the bodies of all requests that are under way."""

    def __init__(self, limits: RequestLimits) -> None:
        self.limits, self.used = limits, 0

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body; one that is too large is refused by its header, or when it gets too large."""
        most, body = self.limits.bytes, bytearray()
        too_large = RequestError(413, "too_large", f"a request must have at most {most:,} bytes")
        length = request.headers.get("content-length", "")
        if length.isdigit() and (len(length) > 18 or int(length) > most):
            if len(length) <= 18 and int(length) <= 2 * most:  # a client that still sends may miss the answer
                with anyio.move_on_after(_SECONDS), suppress(ClientDisconnect):
                    async for _ in request.stream():
                        pass
            raise too_large
        try:
            with anyio.fail_after(_SECONDS):
                async for chunk in request.stream():
                    body += chunk
                    self.used += len(chunk)
                    if len(body) > most:
                        raise too_large
                    if self.used > WAITING * most:
                        raise busy()
            yield bytes(body)
        except ClientDisconnect:
            raise RequestError(400, "incomplete", "the connection ended before the body did") from None
        except TimeoutError:
            raise RequestError(
                408, "timeout", f"the body must arrive within {_SECONDS:.0f} seconds"
            ) from None
        finally:
            self.used -= len(body)


class Work:
    """Embeds the images of requests, one request after another."""

    def __init__(self, model: LoadedModel, limits: RequestLimits) -> None:
        self.model, self.limits = model, limits
        self.memory, self._turn = Memory(limits), anyio.Semaphore(1)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold the turn during the block; one that does not come in time is refused."""
        with anyio.move_on_after(_SECONDS) as waiting:
            await self._turn.acquire()
        if waiting.cancelled_caught:
            raise busy()
        try:
            yield
        finally:
            self._turn.release()

    async def embedded(self, request: Request) -> Vectors:
        async with self.memory.body(request) as body, self.alone():
            kind = request.headers.get("content-type", "")
            return await anyio.to_thread.run_sync(self._embed, body, kind)

    def _embed(self, body: bytes, kind: str) -> Vectors:
        deadline = time.monotonic() + _SECONDS
        images = images_of(body, kind, self.limits)
        pictures = self.model.pictures(images, most_pixels=self.limits.pixels, deadline=deadline)
        try:
            return self.model.embed_pictures(pictures)
        except LateError as error:
            raise RequestError(413, "too_slow", str(error)) from None
        except UserError as error:
            raise RequestError(400, "unreadable_image", str(error)) from None


def application(
    model: LoadedModel,
    index: ImageIndex | None = None,
    limits: RequestLimits | None = None,
    names: Sequence[str] = (),
) -> FastAPI:
    """Return the application for uvicorn. `names` are those of the server besides localhost."""
    limits = limits or RequestLimits()
    about_it = f"Embeddings by {model.name}."
    app = FastAPI(title="dmltune serve", description=about_it, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, names=names)
    _answer_errors(app)
    facts, work = model.facts(), Work(model, limits)

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def description(request: Request) -> HTMLResponse:
        index_facts = None if index is None else index.facts
        shown = page(model.name, model.fingerprint, limits.images, index_facts, str(request.base_url))
        return HTMLResponse(shown, headers=HEADERS)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "fingerprint": model.fingerprint}

    @app.get("/model")
    async def about() -> dict[str, Any]:
        return {
            **facts,
            "limits": asdict(limits),
            "index": None if index is None else {**asdict(index.facts), "store": None},
        }

    @app.post("/embed")
    async def embed(request: Request) -> dict[str, Any]:
        emb_ND = await work.embedded(request)
        return {"fingerprint": model.fingerprint, "dim": model.dim, "embeddings": emb_ND.tolist()}

    @app.post("/search")
    async def search(
        request: Request,
        k: Annotated[int, Query(ge=1, le=1000)] = 10,
        rerank: Annotated[str, Query(pattern="^(none|k-reciprocal|aqe)$")] = "none",
    ) -> dict[str, Any]:
        if index is None:
            raise RequestError(404, "no_index", "this server has no index; start it with --index")
        emb_QD = await work.embedded(request)
        async with work.alone():
            found = await anyio.to_thread.run_sync(index.search, emb_QD, k, rerank)
        return {
            "fingerprint": model.fingerprint,
            "results": [[neighbour._asdict() for neighbour in row] for row in found],
        }

    return app


def images_of(body: bytes, content_type: str, limits: RequestLimits) -> list[bytes]:
    """Return the files of the images in a request."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith(BINARY):
        images = [body]
    elif kind == "application/json":
        images = _from_json(body, limits)
    else:
        raise RequestError(
            415,
            "content_type",
            "Content-Type must be image/… or application/octet-stream with one image, or application/json "
            'with {"images": ["BASE64", …]}',
        )
    if not images or not all(images):
        raise RequestError(400, "empty", "the request has no image, or an empty one")
    if len(images) > limits.images:
        raise RequestError(
            413, "too_many_images", f"at most {limits.images} images a request; got {len(images)}"
        )
    return images


def _from_json(body: bytes, limits: RequestLimits) -> list[bytes]:
    # base64 has none of these: ten million empty lists would take 25 times the memory of their text
    if body.count(b",") > limits.images + _PARTS or body.count(b"[") + body.count(b"{") > _PARTS:
        raise RequestError(
            413, "too_many_images", f"at most {limits.images} images a request, and nothing else of size"
        )
    try:
        document = parse_json(body)
    except ValueError:
        raise RequestError(400, "json", "the body is not valid JSON") from None
    texts = document.get("images") if isinstance(document, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise RequestError(400, "json", 'the body must be {"images": ["BASE64", …]}')
    try:
        return [base64.b64decode(text, validate=True) for text in texts]
    except (binascii.Error, ValueError):
        raise RequestError(400, "base64", "an image is not valid base64") from None


def _answer_errors(app: FastAPI) -> None:
    """Answer every error as {"error": {"code": …, "message": …}}."""

    def answer(status: int, code: str, message: str) -> JSONResponse:
        return JSONResponse({"error": {"code": code, "message": message}}, status)

    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> JSONResponse:
        return answer(error.status, error.code, error.message)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return answer(422, "parameter", f"{'.'.join(map(str, first['loc']))}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        return answer(error.status_code, "http", str(error.detail))

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return answer(500, "internal", "the server failed; its log says why")

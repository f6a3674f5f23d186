"""Stores at addresses: those that do not parse, do not answer, or hold what nobody published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from malformed.case import Case
from malformed.servers import HOST, SECRET

TABLE, SEARCH = ("table",), ("search", "glyphs-ccp", "--dry-run")
ADDRESSES = {
    "no-bucket": "s3://",
    "upper-case": "s3://Bucket/x",
    "one-letter": "s3://b",
    "up": "s3://bucket/../../x",
    "percent": "s3://bucket/%2e%2e/x",
    "blank": "s3://bucket/a b",
    "two-slashes": "s3://bucket//x",
    "password": f"s3://key:{SECRET}@bucket/x",
    "query": f"s3://bucket/x?token={SECRET}",
    "fragment": f"s3://bucket/x#{SECRET}",
    "port": "s3://bucket:99999/x",
    "escape": "s3://bucket/\x1b[31mx",
    "newline": "s3://bucket/a\nb",
    "unicode": "s3://bücket/x",
    "long": "s3://" + "b" * 100_000,
    "google-up": "gs://bucket/..",
    "file-relative": "file://runs",
    "file-host": f"file://{HOST}/runs",
    "file-percent": "file:///a%00b",
    "file-nowhere": "file:///dev/null/x",
    "file-proc": "file:///proc/nosuch/x",
    "scheme": "ftp://host/x",
    "web": f"https://user:{SECRET}@host/x",
    "scheme-in-capitals": "S3://bucket/x",
    "empty-scheme": "://bucket/x",
}
STATES = {
    "empty": b"",
    "text": b"state",
    "binary": b"\xff\xfe\x00",
    "list": b"[1]",
    "number": b"5",
    "nested": b"[" * 100_000,
    "generation-text": b'{"generation": "many"}',
    "generation-list": b'{"generation": [1]}',
    "generation-huge": b'{"generation": 1e999}',
    "databases-list": b'{"generation": 1, "databases": [1]}',
    "databases-text": b'{"generation": 1, "databases": {"mlflow.db": "x"}}',
    "no-digest": b'{"generation": 1, "databases": {"mlflow.db": {"file": "databases/a"}}}',
    "missing": b'{"generation": 1, "databases": {"mlflow.db": {"file": "databases/a", "sha256": "0"}}}',
    "up": b'{"generation": 1, "databases": {"mlflow.db": {"file": "../../../etc/passwd", "sha256": "0"}}}',
    "absolute": b'{"generation": 1, "databases": {"mlflow.db": {"file": "/etc/passwd", "sha256": "0"}}}',
    "other-name": b'{"generation": 1, "databases": {"../../x": {"file": "state.json", "sha256": "0"}}}',
    "large": b'{"a": "' + b"x" * 11_000_000 + b'"}',
}
HARMLESS = ("empty",)  # as a new store
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "DMLTUNE_CACHE": "{dir}/runs/cache",
}


def state(content: bytes) -> Callable[[Path], object]:
    def prepare(folder: Path) -> None:
        (folder / "runs").mkdir()
        (folder / "runs" / "state.json").write_bytes(content)

    return prepare


CASES = [
    *(
        Case(
            f"address-{command[0]}/{name}",
            (*command, "--store", address),
            "address|store|--store",
            seconds=15,
        )
        for command in (TABLE, SEARCH)
        for name, address in ADDRESSES.items()
        if command is TABLE or name != "file-proc"  # a plan makes nothing there yet
    ),
    *(
        Case(
            f"address-state/{name}",
            (*TABLE, "--store", "file://{store}"),
            "damaged|inside it|cannot",
            prepare=state(content),
            env={"DMLTUNE_CACHE": "{dir}/runs/cache"},
            seconds=15,
        )
        for name, content in STATES.items()
        if name not in HARMLESS
    ),
    *(
        Case(
            f"address-server/{name}",
            (*TABLE, "--store", "s3://bucket/x"),
            "s3://bucket/x",
            env={**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://{HOST}:{{{name}}}"},
            seconds=25,
        )
        for name in ("dead", "all-html", "noise")
    ),
]

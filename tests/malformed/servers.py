"""Servers that are away, mute, failing or no servers; addresses that do not parse; secrets in them."""

from __future__ import annotations

from pathlib import Path

from malformed.case import SMALL, Case, plan
from support.finished_search import NAME

HOST = "127.0.0.1"
SECRET = "geheim77"
TRACKING = {
    "dead": f"http://{HOST}:{{dead}}",
    "fails": f"http://{HOST}:{{fails}}",
    "mute": f"http://{HOST}:{{mute}}",
    "noise": f"http://{HOST}:{{noise}}",
    "no-host": "http://",
    "scheme": "foo://x",
    "port": f"http://{HOST}:abc",
    "bracket": "http://[::1",
    "unresolved": "http://nosuchhost.invalid",
    "sqlite-folder": "sqlite:////",
    "sqlite-nowhere": "sqlite:////dev/null/x.db",
    "blank-in-host": "http://a b",
    "postgres-dead": f"postgresql+psycopg2://u@{HOST}:{{dead}}/x",
    "mysql-dead": f"mysql+pymysql://u@{HOST}:{{dead}}/x",
}
SECRETS = {
    "password": f"http://user:{SECRET}@{HOST}:{{dead}}",
    "only": f"http://:{SECRET}@{HOST}:{{dead}}",
    "token": f"http://{SECRET}@{HOST}:{{dead}}",
    "with-at": f"http://user:x@{SECRET}@{HOST}:{{dead}}",
    "colon": f"http://us/er:{SECRET}@{HOST}:{{dead}}",
    "query": f"http://{HOST}:{{dead}}/?token={SECRET}",
    "bracket": f"http://u:{SECRET}@[::1",
    "port": f"http://u:{SECRET}@{HOST}:abc",
    "no-slashes": f"http:u:{SECRET}@{HOST}",
}
OPTUNA = {
    "port": f"postgresql://u:{SECRET}@{HOST}:abc/x",
    "blank": " ",
    "folder": "sqlite:////tmp",
    "text": "foo",
    "http": f"http://u:{SECRET}@{HOST}:{{dead}}",
    "journal": "journal:///x",
    "mysql": f"mysql+pymysql://u:{SECRET}@{HOST}:{{dead}}/x",
    "no-database": "sqlite:////dev/null",
    "no-driver": f"oracle://u:{SECRET}@{HOST}/x",
    "nowhere": "sqlite:////dev/null/x.db",
    "postgres": f"postgresql://u:{SECRET}@{HOST}:{{dead}}/x",
    "redis": f"redis://:{SECRET}@{HOST}:{{dead}}/0",
    "scheme": "foo://x",
}
DASHBOARDS = {
    "blank": "http://a b/",
    "bracket": "http://[::1",
    "newline": "http://127.0.0.1\n:1",
    "port-text": f"http://{HOST}:abc",
    "fails": f"http://{HOST}:{{fails}}",
    "noise": f"http://{HOST}:{{noise}}",
    "dead": f"http://{HOST}:{{dead}}",
    "mute": f"http://{HOST}:{{mute}}",
    "password": f"http://user:{SECRET}@{HOST}:{{dead}}",
    "no-scheme": "head:8265",
    "long": f"http://{HOST}/" + "A" * 100_000,
    "empty": "",
    "ray": f"ray://{HOST}:{{dead}}",
    "port-0": f"http://{HOST}:0",
    "port-huge": f"http://{HOST}:99999",
    "escape": "http://\x1b[31m",
    "query": f"http://{HOST}:{{dead}}/?token={SECRET}",
    "token": f"http://{SECRET}@{HOST}:{{dead}}",
}
CLUSTERS = {
    "text": "not an address",
    "closed": f"{HOST}:{{dead}}",
    "ray": f"ray://{HOST}:{{dead}}",
    "port": f"{HOST}:abc",
    "huge": f"{HOST}:99999",
    "scheme": "tripwire://x",
    "no-port": HOST,
    "bracket": "[::1",
    "escape": "\x1b[31m:1",
    "long": "x" * 100_000 + ":1",
    "password": f"ray://u:{SECRET}@{HOST}:{{dead}}",
}
SEARCH = (
    "search",
    "glyphs-ccp",
    *SMALL,
    "--trials",
    "2",
    "--name",
    "o",
    "--address",
    "tripwire://x",
    "--store",
    "{store}",
)
READERS = {
    "table": ("table",),
    "evaluate": ("evaluate", NAME),
    "check": ("check", NAME, "--dry-run"),
    "ui": ("ui",),
}


def job(folder: Path) -> None:
    (folder / "job.yaml").write_text("space: glyphs-ccp\n")


CASES = [
    Case(
        "tracking-table/databricks",
        ("table", "--store", "{store}"),
        env={"MLFLOW_TRACKING_URI": "databricks"},
        shell='exec "$@"',
    ),
    *(
        Case(
            f"tracking-{reader}/{name}",
            (*command, "--store", "{store}"),
            env={"MLFLOW_TRACKING_URI": uri},
            seconds=15,
        )
        for reader, command in READERS.items()
        for name, uri in TRACKING.items()
        if reader in ("table", "evaluate") or name in ("dead", "fails", "mute", "noise")
    ),
    Case("tracking-search/dead", SEARCH, env={"MLFLOW_TRACKING_URI": TRACKING["dead"]}, seconds=15),
    Case("tracking-search/fails", SEARCH, env={"MLFLOW_TRACKING_URI": TRACKING["fails"]}, seconds=15),
    *(
        Case(
            f"secret-table/{name}",
            ("table", "--store", "{store}"),
            env={"MLFLOW_TRACKING_URI": uri},
            seconds=15,
        )
        for name, uri in SECRETS.items()
    ),
    *(
        Case(f"optuna/{name}", SEARCH, "study|DMLTUNE_OPTUNA_STORAGE", env={"DMLTUNE_OPTUNA_STORAGE": url})
        for name, url in OPTUNA.items()
    ),
    *(
        Case(
            f"dashboard/{name}",
            ("submit", "job.yaml", "--address", address, "--store", "{store}"),
            prepare=job,
        )
        for name, address in DASHBOARDS.items()
    ),
    Case(
        "dashboard/env",
        ("submit", "job.yaml", "--store", "{store}"),
        "--address",
        prepare=job,
        env={"RAY_API_SERVER_ADDRESS": "http://[::1"},
    ),
    *(
        Case(f"cluster/{name}", plan("--address", address), "Ray", seconds=12)
        for name, address in CLUSTERS.items()
    ),
    Case("cluster/env", plan(), "Ray", env={"RAY_ADDRESS": f"{HOST}:{{dead}}"}, seconds=12),
    Case(
        "cluster/check",
        ("check", NAME, "--dry-run", "--address", f"{HOST}:{{dead}}", "--store", "{store}"),
        "Ray",
        saved=True,
    ),
]

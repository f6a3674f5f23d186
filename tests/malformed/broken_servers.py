"""Servers that answer, but wrongly: tracking servers, clusters that want a token, TLS on a plain port."""

from __future__ import annotations

from malformed.case import Case, plan
from malformed.odd_mlflow import KINDS
from malformed.servers import HOST, READERS, SEARCH, SECRET

# Servers of conftest.py: `sick-…` answers /health well and all else in this way, `all-…` all.
SICK = (
    "html",
    "json",
    "list",
    "number",
    "deep",
    "too-large",
    "busy",
    "away",
    "loop",
    "endless",
    "short",
    "no-length",
)
READABLE = ("forgetful", "info-list")  # an empty store, as far as a reader sees
WORDS = "tracking|MLFLOW_TRACKING_URI"
LOCKED = f"{HOST}:{{locked}}"

CASES = [
    *(
        Case(
            f"broken-{kind}-{reader}/{name}",
            (*command, "--store", "{store}"),
            WORDS,
            env={"MLFLOW_TRACKING_URI": f"http://user:{SECRET}@{HOST}:{{{kind}-{name}}}"},
            seconds=15,
        )
        for reader, command in {"table": READERS["table"], "search": SEARCH}.items()
        for name in SICK
        for kind in ("sick", "all")
        if kind == "sick" or reader == "table"
    ),
    *(
        Case(
            f"odd-mlflow-{reader}/{kind}",
            (*READERS[reader], "--store", "{store}"),
            "" if kind in READABLE else WORDS,
            env={"MLFLOW_TRACKING_URI": f"http://user:{SECRET}@{HOST}:{{odd}}/{kind}"},
            seconds=15,
        )
        for kind in KINDS
        for reader in ("table", "evaluate")
        if reader == "table" or not kind.startswith("endless")  # one run is asked for, not a list
    ),
    *(
        Case(
            f"odd-mlflow-search/{kind}",
            SEARCH,
            WORDS,
            env={"MLFLOW_TRACKING_URI": f"http://user:{SECRET}@{HOST}:{{odd}}/{kind}"},
            seconds=15,
        )
        for kind in ("endless", "endless-nothing", "forgetful")
    ),
    *(
        Case(
            f"broken-tls/{name}",
            ("table", "--store", "{store}"),
            WORDS,
            env={"MLFLOW_TRACKING_URI": f"https://{HOST}:{{{name}}}", **more},
            seconds=15,
        )
        for name, more in {
            "noise": {},
            "all-html": {},
            "sick-json": {"MLFLOW_TRACKING_INSECURE_TLS": "true"},
        }.items()
    ),
    Case(
        "broken-tls/no-certificate",
        ("table", "--store", "{store}"),
        WORDS,
        env={
            "MLFLOW_TRACKING_URI": f"https://{HOST}:{{dead}}",
            "MLFLOW_TRACKING_SERVER_CERT_PATH": "/no/such/file.pem",
        },
    ),
    *(
        Case(
            f"cluster-token/{name}",
            plan("--address", address),
            says,
            env={"RAY_AUTH_MODE": "", "RAY_AUTH_TOKEN": "", "HOME": "{dir}", **env},
            seconds=12,
        )
        for name, address, env, says in (
            ("none", LOCKED, {}, "wants a token"),
            ("client", f"ray://{LOCKED}", {}, "wants a token"),
            ("wrong", LOCKED, {"RAY_AUTH_TOKEN": SECRET}, "refuses the token of RAY_AUTH_TOKEN"),
            ("no-file", LOCKED, {"RAY_AUTH_TOKEN_PATH": "/no/such/file"}, "wants a token"),
            ("folder", LOCKED, {"RAY_AUTH_TOKEN_PATH": "/"}, "wants a token"),
            ("odd", LOCKED, {"RAY_AUTH_TOKEN": f"{SECRET}\nX: \x01"}, "refuses the token"),
            ("disabled", LOCKED, {"RAY_AUTH_MODE": "disabled"}, "RAY_AUTH_MODE is disabled"),
        )
    ),
]

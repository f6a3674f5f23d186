"""Arguments: names, numbers, times, overrides, paths, very long ones and control characters."""

from __future__ import annotations

import os

from malformed.case import Case, plan
from support.finished_search import NAME

LONG = "A" * 100_000
ESCAPE = "\x1b[31mred\x07"
NOT_UTF8 = os.fsdecode(b"\xffx")

NAMES = {  # of runs
    "empty": "",
    "dots": "..",
    "hidden": ".x",
    "slash": "a/b",
    "up": "../../x",
    "space": "a b",
    "newline": "a\nb",
    "quote": "it's",
    "unicode": "ü",
    "dash": "-x",
    "long": "x" * 101,
    "100k": LONG,
    "escape": ESCAPE,
    "direction": "a\u202egpj.x\u2066",
    "line-separator": "a\u2028b",
    "backslash": "a\\",
    "not-utf8": NOT_UTF8,
    "injection": "x' or 1=1 --",
    "nul-like": "\\0",
}
FEW = ("slash", "100k", "escape", "quote", "tilde", "long-path", "not-utf8")
NAMED_COMMANDS = {
    "plan": plan(),
    "search": ("search", "glyphs-ccp", "--store", "{store}"),
    "train": ("train", "glyphs-ccp", "--store", "{store}"),
    "check-plan": ("check", NAME, "--dry-run", "--store", "{store}"),
    "reproduce": ("reproduce", "synthetic", "--store", "{store}"),
}
UNKNOWN_NAMES = {name: NAMES[name] for name in NAMES if name not in ("empty", "dash")} | {
    "percent": "a%20b",
    "brackets": "[a]",
    "run-id": "f" * 32,
}
LOOKUPS = {
    "check": ("check", "{name}", "--dry-run", "--store", "{store}"),
    "evaluate": ("evaluate", "{name}", "--store", "{store}"),
    "table": ("table", "{name}", "--store", "{store}"),
    "best": ("best", "{name}", "--store", "{store}"),
    "importance": ("importance", "{name}", "--store", "{store}"),
    "export-config": ("export-config", "{name}", "--store", "{store}"),
    "report": ("report", "{name}", "-o", "{store}/page.html", "--store", "{store}"),
    "resume": ("resume", "{name}", "--store", "{store}"),
    "rm": ("rm", "{name}", "--yes", "--store", "{store}"),
    "from": (*plan(), "--from", "{name}", "--store", "{store}"),
}
NUMBERS = {
    "text": "many",
    "0": "0",
    "negative": "-3",
    "float": "1.5",
    "9000-digits": "9" * 9000,
    "blank": " ",
}
TIMES = {
    "text": "soon",
    "0": "0s",
    "unit": "3x",
    "100k-digits": "9" * 100_000,
    "400-digits": "9" * 400 + "s",
    "many-parts": "1s" * 50_000,
    "negative": "-3s",
    "nan": "nans",
    "dots": "1.2.3s",
}
OVERRIDES = {
    "escape": "\x1b[31m=1",
    "key-100k": LONG + "=1",
    "digits-10k": "max_steps=" + "9" * 10_000,
    "nested-60k": "loss=" + "[" * 60_000,
    "nested-braces": "loss=" + "{a: " * 30_000,
    "list-100k": "optimizer.milestones=[" + "1," * 50_000 + "1]",
    "presets": "presets.loss=5",
    "not-utf8": f"about={NOT_UTF8}=",
    "unknown": "losss.name=x",
    "no-key": "=1",
    "no-value": "max_steps=",
    "extends": "extends=x",
    "torchvision": "backbone=torchvision/nope",
    "timm": "backbone=timm/nope",
    "timm-up": "backbone=timm/../../x",
    "pml": "loss=pml/Nope",
    "huge-dim": "embedding.dim=99999999999",
    "huge-proxies": "references.proxies=9999999999999",
    "huge-size": "data.size=10000000",
    "nan": "optimizer.lr=.nan",
    "newline": "max_steps=1\n2",
    "nul-like": "loss=a\\0b",
    "sampler": "sampler=gq",
    "scheduler": "scheduler=asya",
}
SPACES = {
    "100k": LONG,
    "300": "a" * 300,
    "300-yaml": "a" * 300 + ".yaml",
    "tilde": "~nosuchuser/x.yaml",
    "escape": "\x1b[31mx",
    "misspelt": "glyphs-cpp",
    "empty": "",
    "slash": "/",
    "long-path": "/" + "x" * 5000,
    "not-utf8": NOT_UTF8,
    "not-utf8-yaml": NOT_UTF8 + ".yaml",
    "folder": "./",
    "dots": "../..",
}


def lookup(command: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(name if word == "{name}" else word for word in command)


CASES = [
    *(
        Case(f"name/{command}-{label}", (*words, f"--name={name}"), "a name must be|--name")
        for command, words in NAMED_COMMANDS.items()
        for label, name in NAMES.items()
        if command in ("plan", "check-plan") or label in FEW
    ),
    *(
        Case(f"lookup/{command}-{label}", lookup(words, name))
        for command, words in LOOKUPS.items()
        for label, name in UNKNOWN_NAMES.items()
    ),
    *(
        Case(f"trials/{label}", plan("--trials", text), "--trials|argument")
        for label, text in NUMBERS.items()
    ),
    *(Case(f"port/{label}", ("ui", "--port", text), "--port|argument") for label, text in NUMBERS.items()),
    Case("port/too-large", ("ui", "--port", "70000"), "--port"),
    *(
        Case(f"time/{label}", plan("--time", text), "--time|argument", seconds=5)
        for label, text in TIMES.items()
    ),
    *(Case(f"override/{label}", plan(text), seconds=30) for label, text in OVERRIDES.items()),
    *(
        Case(f"space/{label}", ("search", name, "--store", "{store}", "--dry-run"))
        for label, name in SPACES.items()
    ),
    *(
        Case(f"train-space/{label}", ("train", name, "--store", "{store}"))
        for label, name in SPACES.items()
        if label in FEW
    ),
    *(
        Case(f"data-folder/{label}", ("search", "--data", name, "--store", "{store}", "--dry-run"))
        for label, name in SPACES.items()
        if label not in ("slash", "dots")
    ),
    *(
        Case(f"verify/{label}", ("data", "verify", name))
        for label, name in SPACES.items()
        if label not in ("slash", "dots")
    ),
    *(
        Case(f"reproduce/{label}", ("reproduce", name, "--store", "{store}"))
        for label, name in SPACES.items()
    ),
    *(
        Case(f"submit/{label}", ("submit", name, "--store", "{store}"))
        for label, name in SPACES.items()
        if label in FEW
    ),
    *(
        Case(f"table-metric/{label}", ("table", "--metric", name, "--store", "{store}"))
        for label, name in SPACES.items()
        if label != "empty"
    ),
    Case("command/unknown", ("serach",), "search"),
    Case("command/100k", (LONG,), "no command"),
    Case("command/escape", (ESCAPE,), "no command"),
    Case("command/not-utf8", (NOT_UTF8,), "no command"),
    Case("command/option-first", ("--trials", "3"), "no command"),
    Case("methods/long", ("methods", LONG), "SECTION"),
    Case("option/unknown", plan("--trails", "3"), "--trials"),
    Case("option/long", plan("--" + LONG), "no option"),
    Case("option/escape", plan("--\x1b[31m"), "no option"),
    Case("option/no-value", plan("--trials"), "--trials"),
    Case("option/dashes", plan("--trials=--"), "--trials needs a value"),
    Case("option/dashes-resources", plan("--cpus-per-worker=--"), "--cpus-per-worker needs a value"),
    Case("option/dashes-list", plan("--resource-per-worker=--"), "--resource-per-worker needs a value"),
    Case("option/password", plan("--trials", "http://user:geheim77@host/x"), "--trials"),
    Case("command/password", ("http://user:geheim77@host/x",), "no command"),
    Case(  # in a process of its own: this one may have its glyphs already
        "cache/address",
        plan(),
        "DMLTUNE_CACHE",
        env={"DMLTUNE_CACHE": "s3://user:geheim77@bucket/x"},
        shell='exec "$@"',
    ),
    Case("option/isolation", plan("--isolation", "slots"), "--isolation"),
    Case("option/split", ("evaluate", NAME, "--split", "tset", "--store", "{store}"), "--split"),
    Case(
        "plan/nothing-to-search", ("search", "glyphs", "--store", "{store}", "--dry-run"), "nothing to search"
    ),
    Case("plan/concurrent-million", plan("--concurrent", "1000000"), "--concurrent"),
    Case("plan/workers-million", plan("--workers", "1000000"), "--workers|workers"),
    Case("plan/data-and-space", plan("--data", "."), "leave out"),
    Case("plan/write-alone", plan("--write", "x.yaml"), "--write"),
    Case("seed/negative", plan("--seed", "-1"), "--seed|argument"),
    Case("seed/huge", plan("--seed", "9" * 30), "--seed"),
]

"""Files that are read: spaces, jobs, tables of a paper, lists of pairs; and the folder of the store."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from malformed.case import Case
from support.finished_search import NAME

SPACE = ("search", "x.yaml", "--store", "{store}", "--dry-run")
JOB = ("submit", "x.yaml", "--address", "http://127.0.0.1:{dead}", "--store", "{store}")
PAPER = ("reproduce", "./x.yaml", "--store", "{store}")
LARGEST = 2**63 - 1

TEXTS = {  # of a space
    "empty": "",
    "list": "- a\n",
    "scalar": "x\n",
    "not-closed": "about: [\n",
    "tab": "a:\n\tb: 1\n",
    "twice": "seed: 1\nseed: 2\n",
    "anchor": "a: &x 1\nb: *x\n",
    "billion-laughs": "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n",
    "merge-key": "a: {b: 1}\n<<: {c: 2}\n",
    "alias-itself": "a: &a [*a]\n",
    "deep": f"a: {'[' * 20_000}\n",
    "deep-mapping": f"{'{a: ' * 20_000}",
    "deep-block": "".join(" " * depth + "a:\n" for depth in range(600)),
    "integer-100k": f"seed: {'9' * 100_000}\n",
    "integer-hex": f"seed: 0x{'f' * 100_000}\n",
    "float-huge": "optimizer: {lr: 1e999999}\n",
    "keys-20k": "".join(f"k{number}: 1\n" for number in range(20_000)),
    "key-is-a-list": "? [a, b]\n: 1\n",
    "text-200k": f"about: {'x' * 200_000}\n",
    "tag": "a: !!python/object:os.system x\n",
    "two-documents": "a: 1\n---\nb: 2\n",
    "surrogate": 'extends: glyphs\nabout: "\\ud800"\n',
    "extends-itself": "extends: ./x.yaml\n",
    "extends-nowhere": "extends: nosuch\n",
    "extends-long": f"extends: {'a' * 300}\n",
    "extends-long-path": f"extends: /{'a' * 5000}\n",
    "extends-tilde": "extends: ~nosuchuser/x.yaml\n",
    "extends-passwd": "extends: /etc/passwd\n",
    "extends-list": "extends: [a]\n",
    "extends-folder": "extends: ./\n",
    "extends-escape": 'extends: "\\e[31mx"\n',
    "unknown-key": "extends: glyphs\nlosss: triplet\n",
    "unknown-escape": 'extends: glyphs\n"\\e[31m": 1\n',
    "search-list": "extends: glyphs-ccp\nsearch: [a]\n",
    "search-text": "extends: glyphs-ccp\nsearch: x\n",
    "presets-list": "extends: glyphs\npresets: [1]\n",
    "presets-null": "extends: glyphs-ccp\npresets: null\nseed: -1\n",
    "presets-text": "extends: glyphs\npresets: x\n",
    "bounds": "extends: glyphs-ccp\nsearch: {references.lambda: {float: [1, 0]}}\n",
    "pool-huge": f"extends: glyphs-ccp\nreference_point: {{references.pool_size: {LARGEST}}}\n",
    "references-huge": f"extends: glyphs-ccp\nreference_point: {{references.proxies: {LARGEST}}}\n",
    "proxies-huge": "extends: glyphs-ccp\nloss: {name: soft_triple, centers: 100000000}\n",
    "gsp-huge": f"extends: glyphs-ccp\npooling: {{name: gsp, prototypes: {LARGEST}}}\n",
    "path-long": f"extends: glyphs-ccp\ndata: {{name: own, path: /{'a' * 5000}}}\n",
    "path-nul": 'extends: glyphs-ccp\ndata: {name: own, path: "/a\\0b"}\n',
    "require": "extends: glyphs-ccp\nrequire: __import__('os')\n",
    "require-power": "extends: glyphs-ccp\nrequire: 9**9**9**9 > 1\n",
    "batch": "extends: glyphs-ccp\nbatch: {size: 9999999999}\n",
    "metric": "extends: glyphs-ccp\nobjective: {metric: nosuch}\n",
}
JOBS = {
    "empty": "",
    "no-space": "name: x\n",
    "name-slash": "space: glyphs-ccp\nname: a/b\n",
    "name-number": "space: glyphs-ccp\nname: 3\n",
    "env-vars-number": "space: glyphs-ccp\nruntime_env: {env_vars: {A: 1}}\n",
    "env-vars-text": "space: glyphs-ccp\nruntime_env: {env_vars: x}\n",
    "py-modules-text": "space: glyphs-ccp\nruntime_env: {py_modules: x}\n",
    "runtime-env-list": "space: glyphs-ccp\nruntime_env: [1]\n",
    "time": "space: glyphs-ccp\ntime: soon\n",
    "time-digits": f"space: glyphs-ccp\ntime: {'9' * 5000}s\n",
    "time-long": "space: glyphs-ccp\ntime: 9999999999999999999d\n",
    "time-decimals": "space: glyphs-ccp\ncost: 1.0000000000001s\n",
    "time-parts": f"space: glyphs-ccp\ntime: {'1s' * 40}\n",
    "keep-long": "space: glyphs-ccp\nimage: x\nkuberay: {keep: 999999999d}\n",
    "keep-other-digits": "space: glyphs-ccp\nimage: x\nkuberay: {keep: ٣s}\n",
    "trials": "space: glyphs-ccp\ntrials: many\n",
    "unknown": "space: glyphs-ccp\ntrails: 3\n",
    "override": "space: glyphs-ccp\noverrides: [x]\n",
    "space-unknown": "space: nosuch\n",
    "space-empty": 'space: ""\n',
    "billion-laughs": "a: &a [1, 1]\nb: &b [*a, *a]\nspace: *b\n",
    "merge-key": "base: {space: glyphs-ccp}\n<<: {trials: 3}\n",
    "tag": "space: !!python/object/apply:os.system [id]\n",
    "deep": f"space: glyphs-ccp\nruntime_env: {'{a: ' * 200}1{'}' * 200}\n",
    "deep-list": f"space: glyphs-ccp\noverrides: {'[' * 5000}\n",
    "trials-64-bits": "space: glyphs-ccp\ntrials: 99999999999999999999\n",
    "trials-zero": "space: glyphs-ccp\ntrials: 0\n",
    "workers-negative": "space: glyphs-ccp\nworkers: -1\n",
    "workers-float": "space: glyphs-ccp\nworkers: 1.5\n",
    "workers-nan": "space: glyphs-ccp\nworkers: .nan\n",
    "name-up": "space: glyphs-ccp\nname: ../../x\n",
    "name-newline": 'space: glyphs-ccp\nname: "a\\nb"\n',
    "name-escape": 'space: glyphs-ccp\nname: "\\e[31m"\n',
    "store-nul": 'space: glyphs-ccp\nstore: "/a\\0b"\n',
    "store-list": "space: glyphs-ccp\nstore: [a]\n",
    "ship-text": "space: glyphs-ccp\nship: perhaps\n",
    "override-key": "space: glyphs-ccp\noverrides: [nosuch=1]\n",
    "override-deep": f"space: glyphs-ccp\noverrides: ['loss={'[' * 4000}']\n",
    "env-vars-null": "space: glyphs-ccp\nruntime_env: {env_vars: {A: null}}\n",
    "py-modules-number": "space: glyphs-ccp\nruntime_env: {py_modules: [1]}\n",
    "space-up": "space: ../../../etc/passwd\n",
    "space-escape": 'space: "\\e[31m"\n',
    "two-documents": "space: glyphs-ccp\n---\nspace: glyphs-ccp\n",
    "surrogate": 'space: "\\ud800"\n',
    "key-long": f"space: glyphs-ccp\n{'k' * 5000}: 1\n",
}
PAPERS = {
    "empty": "",
    "list": "- a\n",
    "no-rows": "about: x\nsource: y\nprotocol: fair\nunit: percent\ndata: {}\nrows: {}\n",
    "as-unknown": "about: x\nas: nosuch\n",
    "as-row": "about: x\nsource: y\nprotocol: fair\nrows: {a: {as: nosuch}}\n",
    "text": "x\n",
}
PAIRS = {
    "empty": b"",
    "binary": b"\xff\xfe\x00\x01" * 50,
    "csv": b"left,right\na,b\n",
    "numbers": b"10 300\nx 1\n",
}


def text(content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "x.yaml").write_text(content, encoding="utf-8", errors="surrogatepass")


def binary(folder: Path, name: str = "x.yaml") -> None:
    (folder / name).write_bytes(b"about: \xff\n")


def large(folder: Path) -> None:
    (folder / "x.yaml").write_text("a: " + "x" * 400_000)


def fifo(folder: Path, name: str = "x.yaml") -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    os.mkfifo(folder / name)


def loop(folder: Path, name: str = "x.yaml") -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(folder / name)


def directory(folder: Path) -> None:
    (folder / "x.yaml").mkdir()


def device(folder: Path) -> None:
    (folder / "x.yaml").symlink_to("/dev/zero")


KINDS = {"binary": binary, "large": large, "fifo": fifo, "loop": loop, "folder": directory, "device": device}
FOLDERS = {  # things in ./search_spaces: listing goes on without them
    "fifo": lambda folder: fifo(folder, "search_spaces/x.yaml"),
    "loop": lambda folder: loop(folder, "search_spaces/x.yaml"),
    "folder-loop": lambda folder: (folder / "search_spaces").symlink_to(folder / "search_spaces"),
    "search-list": lambda folder: spaces_with(folder, "extends: glyphs-ccp\nsearch: [a]\n"),
    "broken": lambda folder: spaces_with(folder, "about: [\n"),
    "presets": lambda folder: spaces_with(folder, "extends: glyphs\npresets: 3\n"),
}


def spaces_with(folder: Path, content: str) -> None:
    (folder / "search_spaces").mkdir()
    (folder / "search_spaces" / "x.yaml").write_text(content)


def pair_list(content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / "pairs.txt").write_bytes(content)


STORES = {
    "file": "x.yaml/..",
    "percent": "a%20b",
    "question": "a?b",
    "hash": "a#b",
    "read-only": "a?mode=ro&uri=true",
    "tilde": "~nosuchuser/x",
    "long": "x" * 5000,
    "nul-like": "a\x01b",
    "dev": "/dev/null",
    "proc": "/proc/nosuch",
    "not-utf8": os.fsdecode(b"\xffstore") + "\n",
}

CASES = [
    *(
        Case(f"space-text/{name}", SPACE, "x.yaml|itself|loss", prepare=text(content))
        for name, content in TEXTS.items()
    ),
    *(Case(f"space-kind/{name}", SPACE, "x.yaml", prepare=make) for name, make in KINDS.items()),
    *(
        Case(f"job-text/{name}", JOB, "x.yaml|--time", prepare=text(content))
        for name, content in JOBS.items()
    ),
    *(Case(f"job-kind/{name}", JOB, "x.yaml", prepare=make) for name, make in KINDS.items()),
    *(Case(f"paper-text/{name}", PAPER, "x.yaml", prepare=text(content)) for name, content in PAPERS.items()),
    *(Case(f"paper-kind/{name}", PAPER, "x.yaml", prepare=make) for name, make in KINDS.items()),
    *(Case(f"spaces/{name}", ("spaces",), code=0, prepare=make) for name, make in FOLDERS.items()),
    *(
        Case(f"spaces-json/{name}", ("spaces", "-f", "json"), code=0, prepare=make)
        for name, make in FOLDERS.items()
    ),
    *(
        Case(
            f"pairs/{name}",
            ("evaluate", NAME, "--pairs", "pairs.txt", "--store", "{store}"),
            "pairs",
            saved=True,
            prepare=pair_list(content),
        )
        for name, content in PAIRS.items()
    ),
    Case(
        "pairs/fifo",
        ("evaluate", NAME, "--pairs", "pairs.txt", "--store", "{store}"),
        "pairs",
        saved=True,
        prepare=lambda folder: fifo(folder, "pairs.txt"),
    ),
    Case(
        "pairs/missing", ("evaluate", NAME, "--pairs", "nosuch", "--store", "{store}"), "nosuch", saved=True
    ),
    *(
        Case(f"store-{command[0]}/{name}", (*command, "--store", path), "store")
        for name, path in STORES.items()
        if name != "file"
        for command in (("table",), ("evaluate", "nosuchrun"), ("ui",), ("search", "glyphs-ccp", "--dry-run"))
    ),
    Case(
        "write/exists",
        ("search", "--data", "nosuch", "--write", "x.txt", "--store", "{store}", "--dry-run"),
        "nosuch",
        prepare=text("about: mine\n"),
    ),
]

"""Malformed files, names and values: one short line that names the file, without traceback or wait."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from dmltune.errors import UserError
from dmltune.experiment import Experiment, load_experiment, load_job, spaces

FILE = "search_spaces/mine.yaml"
Message = Callable[..., str]
Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"extends: {'a' * 3000}", "extends: no search space 'aaa"),
        (f"extends: /{'a' * 3000}.yaml", "extends: no file '/aaa"),
        ("extends: ~nobody-of-that-name/x.yaml", "extends: no file '~nobody-of-that-name/x.yaml'"),
        ("extends: /etc/passwd", "extends: /etc/passwd:"),
        (f"extends: {'a' * 5000}", "a text has at most 4,096 characters; got 5,000."),
        ('extends: cub\nabout: "\\ud800"', "character U+D800 is not allowed"),
        ('extends: cub\nabout: "a \\e[31m b"', "character U+001B is not allowed"),
        ('extends: cub\ndata: {path: "a\\0b"}', "character U+0000 is not allowed"),
        ('extends: cub\n"\\ud800": 1', "character U+D800 is not allowed"),
        (
            f"extends: cub\ndata: {{name: own, path: /{'a' * 300}}}",
            "data.path: a path has at most 4095 bytes and 255",
        ),
        ("extends: cub\npresets: {loss: 5}", "presets.loss must be a mapping of names; got 5."),
        ("extends: cub\npresets: {loss: null}", "presets.loss must be a mapping of names; got null."),
        (
            "extends: cub\npresets: {loss: {triplet: [1]}}",
            "presets.loss.triplet must be a mapping of parameters",
        ),
        (
            "extends: cub\nloss: {neg_margin: [" + "1, " * 2000 + "1]}",
            "loss.neg_margin must be a number; got [1, 1,",
        ),
        (
            "extends: cub\noptimizer: {milestones: [" + "1, " * 2000 + "1]}",
            "optimizer.milestones has 2001 values",
        ),
        (f"extends: cub\nloss: {'a' * 4000}", "no 'aaa"),
        (f"extends: cub\ndata: {'a' * 4000}", "no data set 'aaa"),
        (f"extends: cub\n{'a' * 1000}: 1", "unknown key 'aaa"),
    ],
)
def test_a_malformed_text_is_one_short_line_with_the_file(message: Message, text: str, expected: str) -> None:
    line = message(text + "\n")
    assert line.startswith(f"{FILE}:")
    assert expected in line
    assert line.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "references: {name: ccp, proxies: 9223372036854775807, pool_size: 9223372036854775807}",
        "references: {name: ccp, proxies: 2000000000, pool_size: 2000000000}",
        "references: {name: xbm, size: 9223372036854775807}",
        "references: {name: xbm, size: 40000000000}",
        "pooling: {name: gsp, prototypes: 9223372036854775807}",
        "pooling: {name: gsp, prototypes: 3000000}",
        "loss: {name: soft_triple, centers: 9223372036854775807}",
    ],
)
def test_a_huge_number_is_refused_without_allocating_it(message: Message, text: str) -> None:
    """Building these on the CPU takes 6 GB and more; 64-bit numbers overflow."""
    line = message(f"extends: cub\n{text}\n")
    assert line.startswith(f"{FILE}:2: ")
    assert "Use smaller numbers." in line


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("max_steps=" + "9" * 4000, "a whole number must fit 64 bits"),
        ("max_steps=" + "9" * 100_000, "an override has at most 10,000 characters; got 100,010."),
        ("a" * 100_000 + "=1", "an override has at most 10,000 characters"),
        ("loss=" + "[" * 9000, "nested deeper than"),
        ("optimizer.milestones=[" + "1," * 4000 + "1]", "milestones has 4001 values"),
        ("presets.loss=5", "presets.loss must be a mapping"),
        ("\x1b[31m=1", "character U+001B is not allowed"),
        ("loss=\x1b[31m", "character U+001B is not allowed"),
        ("data.path=a\udcffb", "character U+DCFF is not allowed"),
    ],
)
def test_a_malformed_override_is_one_short_printable_line(
    message: Message, override: str, expected: str
) -> None:
    line = message("extends: cub\n", override)
    assert line.startswith("override '")
    assert expected in line
    assert line.isprintable()


@pytest.mark.parametrize(
    "name", ["A" * 100_000, "A" * 100_000 + ".yaml", "\x1b[31mx", "a\udcffb", "./\udcff.yaml"]
)
def test_a_malformed_name_is_one_short_printable_line(write: Write, name: str) -> None:
    for load in (load_experiment, load_job):
        with pytest.raises(UserError) as caught:
            load(name)
        assert len(str(caught.value)) < 400
        assert str(caught.value).isprintable()


def test_a_value_of_a_program_is_validated_like_one_of_a_file() -> None:
    tree = load_experiment("cub").to_dict()
    for text in ("\ud800", "\x00", "a" * 5000):
        with pytest.raises(UserError, match=r"^about: "):
            Experiment.from_dict({**tree, "about": text})
    for key in ("max_steps", "search.batch.size.int"):
        with pytest.raises(UserError, match="must fit 64 bits"):
            Experiment.from_dict(
                {
                    **tree,
                    key.split(".")[0]: 10**400
                    if key == "max_steps"
                    else {"batch.size": {"int": [1, 10**400]}},
                }
            )


def test_files_that_are_no_settings_are_listed_with_an_error_and_do_not_block(write: Write) -> None:
    folder = write("good", "extends: glyphs-ccp\n").parent
    os.mkfifo(folder / "fifo.yaml")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "folder.yaml").mkdir()
    (folder / "list.yaml").write_text("extends: glyphs-ccp\nsearch: [1]\n")
    (folder / "about.yaml").write_text('about: "\\e[31m"\nextends: glyphs\n')
    (folder / "reads_fifo.yaml").write_text("extends: ./fifo.yaml\n")
    (folder / os.fsdecode(b"\xff.yaml")).write_text("extends: glyphs\n")
    listed = {space.name: space for space in spaces()}
    assert (
        listed["fifo"].error
        == "search_spaces/fifo.yaml: cannot be read (not a regular file). Name a readable YAML file."
    )
    assert "cannot be read" in listed["loop"].error
    assert "cannot be read" in listed["folder"].error
    assert (
        listed["list"].error
        == "search_spaces/list.yaml:2: search must be a mapping of 'key: value' lines; got the list [1]."
    )
    assert "U+001B" in listed["about"].error
    assert "extends: no file './fifo.yaml'" in listed["reads_fifo"].error
    assert not listed["good"].error
    assert listed["good"].searchable
    assert all(space.name.isprintable() and space.error.isprintable() for space in listed.values())


def test_a_folder_of_spaces_that_loops_or_cannot_be_read_is_passed_over_or_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search_spaces").symlink_to("search_spaces")
    assert "glyphs" in {space.name for space in spaces()}
    (tmp_path / "search_spaces").unlink()
    (tmp_path / "search_spaces").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path / "search_spaces"))
    with pytest.raises(UserError, match="the folder search_spaces cannot be read"):
        spaces()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("runtime_env: {env_vars: 3}", "runtime_env: env_vars must be a mapping of texts"),
        ("runtime_env: {env_vars: {A: 1}}", "runtime_env: env_vars must be a mapping of texts"),
        ("runtime_env: {py_modules: x}", "runtime_env: py_modules must be a list of texts"),
        ("name: a/b", "name: it must be letters"),
    ],
)
def test_a_job_that_could_not_be_submitted_names_its_file(write: Write, line: str, expected: str) -> None:
    write("mine", f"space: cub-ccp\n{line}\n", "jobs")
    with pytest.raises(UserError) as caught:
        load_job("mine")
    assert str(caught.value).startswith(f"jobs/mine.yaml:2: {expected}")


ODD = [
    *(None, True, -1, 2**63 - 1, 10**400, 1e300, float("nan"), "", "a" * 5000, "\x00", "\ud800", "\x1b[31m"),
    *([], [None], [[]], {}, {"name": 1}, {1: 2}, {"": 1}, {"a": {"b": 1}}, b"x", object(), {"float": [1, 2]}),
    *({"int": [1, 2**62]}, {"choice": [1, [2]]}, "pml/Nope", "timm/nope", "../x", "a.b >= 2"),
]


def test_no_odd_value_in_a_tree_ends_in_anything_but_one_line() -> None:
    random_numbers = random.Random(0)
    trees = [load_experiment(name).to_dict() for name in ("glyphs-ccp", "cub-losses", "cub-sft")]
    lines = set()
    for _ in range(600):
        tree = copy.deepcopy(random_numbers.choice(trees))
        node = tree
        while True:
            key = random_numbers.choice(list(node))
            if not (isinstance(node[key], dict) and node[key]) or random_numbers.random() < 0.3:
                break
            node = node[key]
        node[random_numbers.choice([key, key, 1, "x"])] = random_numbers.choice(ODD)
        for read in (Experiment.from_dict, Experiment.from_validated):
            try:
                read(tree)
            except UserError as error:
                lines.add(str(error))
    assert len(lines) > 100
    assert not [line for line in lines if not line.isprintable() or len(line) >= 500]

"""Reading YAML: what comes out, on which line it stood, and how a broken file is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dmltune.errors import UserError
from dmltune.experiment.files.document import Document, read_document, read_value


def read(tmp_path: Path, content: str | bytes) -> Document:
    file = tmp_path / "x.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_document(file, "x.yaml")


def test_every_key_knows_its_line(tmp_path: Path) -> None:
    document = read(tmp_path, "# a comment\na: 1\nb:\n  c: [x,\n    {d: 2}]\n  e.f: 3\n")
    assert document.tree == {"a": 1, "b": {"c": ["x", {"d": 2}], "e.f": 3}}
    lines = document.lines
    assert (lines[("a",)], lines[("b",)], lines[("b", "c")], lines[("b", "e.f")]) == (2, 3, 4, 6)
    assert lines[("b", "c", "1", "d")] == 5


def test_a_file_that_is_read_again_is_as_new_whatever_was_done_to_the_first_one(tmp_path: Path) -> None:
    text = "a: {b: [1, 2]}\n"
    first = read(tmp_path, text)
    first.tree["a"]["b"].append(3)
    first.tree["c"] = first.lines.pop(("a",))
    again = read(tmp_path, text)
    assert (again.tree, again.lines[("a",)]) == ({"a": {"b": [1, 2]}}, 1)
    assert read(tmp_path, "a: 2\n").tree == {"a": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("2.0e-4", 2e-4),
        (".5", 0.5),
        ("-3", -3),
        ("0x1f", 31),
        ("0o17", 15),
        ("none", "none"),
        ("on", "on"),
        ("no", "no"),
        ("true", True),
        ("", None),
        ("null", None),
        ("'12'", "12"),
        ("1_000", "1_000"),
        ("2020-01-01", "2020-01-01"),
        ("[1, 2.5, x]", [1, 2.5, "x"]),
        ("{float: [1, 2], log: true}", {"float": [1, 2], "log": True}),
        ("pml/CircleLoss", "pml/CircleLoss"),
        ("a.b >= 2", "a.b >= 2"),
        ("C:\\dir: x", "C:\\dir: x"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: Any) -> None:
    found = read_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "x.yaml: the file is empty"),
        ("# nothing\n", "x.yaml: the file is empty"),
        ("\n\n- 1\n- 2\n", "x.yaml:3: the file must hold 'key: value' lines; got a list"),
        ("hello", "x.yaml:1: the file must hold 'key: value' lines; got 'hello'"),
        ("a:\n\tb: 1\n", "x.yaml:2: a tab where YAML wants spaces. Indent with spaces."),
        ("a: 1\nb: 2\na: 3\n", "x.yaml:3: key 'a' is written twice, first on line 1. Delete one of them."),
        ("a: {b: 1, b: 2}\n", "x.yaml:1: key 'b' is written twice"),
        ("a: [1, 2\n", "x.yaml:1: a bracket or quote is opened here and never closed"),
        ("a: 'x\n", "x.yaml:1: a bracket or quote is opened here and never closed"),
        ("a: b: c\n", "x.yaml:1: a ':' that YAML does not expect here"),
        ("a: 1\n b: 2\n", "x.yaml:2: a ':' that YAML does not expect here"),
        ("a: &x 1\nb: *x\n", "x.yaml:1: anchors and aliases ('x') are not supported"),
        ("a: *x\n", "x.yaml:1: anchors and aliases ('x') are not supported"),
        ("a: 1\n<<: {b: 2}\n", "x.yaml:2: merge keys ('<<') are not supported. Use extends."),
        ("a: !!python/object/apply:os.system [ls]\n", "x.yaml:1: tags ('tag:yaml.org,2002:python/object"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2: a second document begins here"),
        ("? [a]\n: 1\n", "x.yaml:1: a key must be a plain word"),
        ("a: .nan\n", "x.yaml:1: a number must be finite; got .nan"),
        ("x: 1\na: -.inf\n", "x.yaml:2: a number must be finite; got -.inf"),
        ("a: 1e999\n", "x.yaml:1: a number must be finite; got 1e999"),
        ("a: " + "9" * 30 + "\n", "x.yaml:1: a whole number must fit 64 bits"),
        ("a: " + "9" * 9000 + "\n", "x.yaml:1: a whole number must fit 64 bits"),
        ("a: " + "[" * 2000, "x.yaml:1: nested deeper than"),
        ("a: " + "{a: " * 2000, "x.yaml:1: nested deeper than"),
        ("a: 1\nb: \x00\n", "x.yaml:2: character U+0000 is not allowed"),
        (b"a: 1\nb: caf\xe9\n", "x.yaml:2: byte 0xe9 is not UTF-8. Save the file as UTF-8."),
        ("a: 1\n".encode("utf-16"), "x.yaml:1: byte 0xff is not UTF-8"),
        ("a: " + "x" * 300_000, "x.yaml: larger than 64 KiB"),
        ("@a: 1\n", "x.yaml:1: not YAML"),
        ("%YAML 3.0\n---\na: 1\n", "x.yaml:1: not YAML"),
    ],
)
def test_a_broken_file_is_one_line_with_file_and_line(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_and_windows_line_ends_are_harmless(tmp_path: Path) -> None:
    document = read(tmp_path, b"\xef\xbb\xbfa: 1\r\nb: x\r\n")
    assert document.tree == {"a": 1, "b": "x"}
    assert document.lines[("b",)] == 2


def test_an_alias_bomb_is_refused_before_it_expands(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    with pytest.raises(UserError, match="anchors and aliases"):
        read(tmp_path, "\n".join(lines))


def test_a_folder_or_unreadable_path_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"x: cannot be read"):
        read_document(tmp_path, "x")


@given(st.text(max_size=80))
def test_any_text_is_a_document_or_a_user_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    file.write_text(text, encoding="utf-8", errors="replace", newline="")
    line = ""
    try:
        read_document(file, "fuzz.yaml")
    except UserError as error:
        line = str(error)
    assert "\n" not in line


@given(st.text(alphabet="[]{},:'\"! &*?-|>%@`#\t\n ab1.", max_size=30))
def test_any_right_side_of_an_override_is_a_value_or_a_value_error(text: str) -> None:
    line = ""
    try:
        read_value(text)
    except ValueError as error:
        line = str(error)
    assert "\n" not in line

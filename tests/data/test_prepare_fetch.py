"""Data sets that a program fetches, and those that a person has to get."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from data.loopback import serve
from data.packed_sets import digest, packed, publish, refusal

from dmltune.data import archives, catalog, obtain
from dmltune.data.obtain import RELEASES, File
from dmltune.data.prepare import prepare
from dmltune.errors import UserError


def test_a_data_set_is_fetched_continued_checked_and_what_was_fetched_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, root = packed("sop", tmp_path), tmp_path / "data"
    content = archive.read_bytes()
    seen: list[tuple[str, int, int]] = []
    with serve(content=content, errors=[404]) as site:
        file = File("sop.zip", site.url, len(content), digest(archive))
        publish(monkeypatch, "sop", file)
        assert "cannot be fetched (404 Not Found)" in refusal("sop", root)
        (root / ".Stanford_Online_Products.download").mkdir()
        (root / ".Stanford_Online_Products.download" / "sop.zip.part").write_bytes(content[:1000])
        (root / ".Stanford_Online_Products.download" / "sop.zip.part.tag").write_text(site.etag)
        prepared = prepare("sop", root, progress=lambda *what: seen.append(what))
        assert site.asked[-1] == ("/birds.tgz", "bytes=1000-")
    assert os.listdir(root) == ["Stanford_Online_Products"]
    assert prepared.images == 12
    assert prepared.notes[0].startswith("fetched sop.zip, ")
    assert list(dict.fromkeys(what for what, _, _ in seen)) == ["fetch sop.zip", "unpack sop.zip"]
    assert all(0 <= done <= total for _, done, total in seen)


def test_what_was_fetched_is_kept_when_there_is_no_room_to_unpack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, root = packed("sop", tmp_path), tmp_path / "data"
    root.mkdir()
    with serve(content=archive.read_bytes()) as site:
        publish(monkeypatch, "sop", File("sop.zip", site.url, archive.stat().st_size, digest(archive)))
        with monkeypatch.context() as patch:
            patch.setattr(archives.shutil, "disk_usage", lambda _: type("", (), {"free": 1000}))
            assert "data must have room for " in refusal("sop", root)
            assert not site.asked
            patch.setattr(obtain, "require_room", lambda *_: None)
            with pytest.raises(UserError, match=r"partial/new must have room for .*; it has 1\.0 kB"):
                prepare("sop", root)
        assert os.listdir(root) == [".Stanford_Online_Products.download"]
        prepare("sop", root)
        assert len(site.asked) == 1


def test_what_no_program_can_fetch_is_refused_with_the_place_where_a_person_gets_it(tmp_path: Path) -> None:
    for name in ["vehicleid", "sop", "inshop", "faces", "cars196"]:
        why = refusal(name, tmp_path / "data")
        assert why.startswith(f"{name} cannot be fetched by a program: ")
        assert why.endswith("with --archive.")
        assert all(release.home in why for release in RELEASES.get(name, ()))
        assert not (tmp_path / "data").exists()


def test_the_table_has_what_can_be_fetched_with_size_checksum_and_https() -> None:
    assert set(RELEASES) <= set(catalog.names())
    for releases in RELEASES.values():
        for release in releases:
            assert release.home.startswith(("https://", "http://yann.lecun.com/"))
            for file in release.files:
                kind, _, value = file.checksum.partition(":")
                assert len(value) == {"md5": 32, "sha256": 64, "": 0}[kind]
                if file.url:
                    assert file.url.startswith("https://")
                    assert file.url.endswith("/" + file.name)
                    assert file.size
                    assert value
    fetchable = {name for name in RELEASES if any(release.fetchable for release in RELEASES[name])}
    cifar = {"cifar10", "cifar100", "cifar_collage", "cifar_distilled", "cifar_singles"}
    assert fetchable == {"cub", *cifar, "mnist"}

from __future__ import annotations

import hashlib
import os
import random
import socket
from pathlib import Path

import pytest
from data.loopback import serve

from dmltune.data import download as module
from dmltune.data.download import download, verify_file
from dmltune.errors import UserError

CONTENT = random.Random(0).randbytes(400_000)
SHA = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def failure(url: str, file: Path, checksum: str = SHA, size: int | None = None) -> str:
    """Why nothing is fetched, in one line; no file gets its name."""
    with pytest.raises(UserError) as caught:
        download(url, file, checksum, size, pause=0)
    assert "\n" not in str(caught.value)
    assert not file.exists()
    return str(caught.value)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_file_arrives_with_progress_and_nothing_beside_it(
    silent: bool, size: int | None, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    with serve(content=CONTENT, silent=silent) as site:
        file = tmp_path / "new" / "birds.tgz"
        download(site.url, file, SHA, size, lambda done, total: seen.append((done, total)))
        assert site.asked == [("/birds.tgz", None)]
    assert file.read_bytes() == CONTENT
    assert os.listdir(file.parent) == ["birds.tgz"]
    fetched = [pair for pair in seen if pair[1] in (0, len(CONTENT))]
    assert fetched == seen
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_connection_that_breaks_in_the_middle_is_continued_where_it_broke(tmp_path: Path) -> None:
    with serve(content=CONTENT, breaks=[100_000, 50_000]) as site:
        download(site.url, tmp_path / "birds.tgz", SHA, pause=0)
        assert [asked for _, asked in site.asked] == [None, "bytes=100000-", "bytes=150000-"]
    assert (tmp_path / "birds.tgz").read_bytes() == CONTENT


def test_what_an_earlier_run_left_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "birds.tgz"
    monkeypatch.setattr(module, "RETRIES", 0)
    with serve(content=CONTENT, breaks=[100_000, 30_000]) as site:
        assert "(the connection ended after 100.0 kB of 400.0 kB)" in failure(site.url, file)
        assert "try again later (it continues after 130.0 kB), or fetch it" in failure(site.url, file)
        assert sorted(os.listdir(tmp_path)) == ["birds.tgz.part", "birds.tgz.part.tag"]
        download(site.url, file, SHA)
        assert site.asked[-1] == ("/birds.tgz", "bytes=130000-")
    assert file.read_bytes() == CONTENT
    assert os.listdir(tmp_path) == ["birds.tgz"]


@pytest.mark.parametrize("change", [{"etag": '"two"'}, {"ranges": False}])
def test_a_file_that_changed_or_cannot_be_continued_is_fetched_from_its_beginning(
    change: dict[str, object], tmp_path: Path
) -> None:
    file = tmp_path / "birds.tgz"
    (tmp_path / "birds.tgz.part").write_bytes(b"of another version" * 100)
    (tmp_path / "birds.tgz.part.tag").write_text('"one"')
    with serve(content=CONTENT, **change) as site:
        download(site.url, file, SHA)
        assert site.asked == [("/birds.tgz", "bytes=1800-")]
    assert file.read_bytes() == CONTENT


def test_a_part_of_an_unknown_version_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "birds.tgz.part").write_bytes(CONTENT[:1000])
    with serve(content=CONTENT, etag='W/"weak"') as site:
        site.breaks = [5000]
        download(site.url, tmp_path / "birds.tgz", SHA, pause=0)
        assert [asked for _, asked in site.asked] == [None, None]


@pytest.mark.parametrize(("checksum", "asked"), [(SHA, []), ("", ["bytes=400000-"])])
def test_a_complete_part_is_only_checked(checksum: str, asked: list[str], tmp_path: Path) -> None:
    (tmp_path / "birds.tgz.part").write_bytes(CONTENT)
    (tmp_path / "birds.tgz.part.tag").write_text('"one"')
    with serve(content=CONTENT) as site:
        download(site.url, tmp_path / "birds.tgz", checksum, len(CONTENT))
        assert [one for _, one in site.asked] == asked
    assert os.listdir(tmp_path) == ["birds.tgz"]


def test_a_part_longer_than_the_file_is_dropped(tmp_path: Path) -> None:
    (tmp_path / "birds.tgz.part").write_bytes(CONTENT + b"more")
    (tmp_path / "birds.tgz.part.tag").write_text('"one"')
    with serve(content=CONTENT) as site:
        download(site.url, tmp_path / "birds.tgz", SHA, pause=0)
    assert (tmp_path / "birds.tgz").read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_wrong_checksum_is_refused_and_the_next_attempt_begins_anew(kind: str, tmp_path: Path) -> None:
    right = f"{kind}:{hashlib.new(kind, CONTENT).hexdigest()}"
    with serve(content=CONTENT[:-1] + b"!" * (CONTENT[-1] != 33) + b"?" * (CONTENT[-1] == 33)) as site:
        why = failure(site.url, tmp_path / "birds.tgz", right)
        assert f"{site.url} must have the checksum {kind} {right.partition(':')[2]}; got " in why
        assert not os.listdir(tmp_path)
        site.content = CONTENT
        download(site.url, tmp_path / "birds.tgz", right)


def test_a_wrong_size_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    with serve(content=CONTENT) as site:
        why = failure(site.url, tmp_path / "birds.tgz", size=500_000)
    assert "must have 500,000 bytes; the server has 400,000. It is another file now" in why
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("length", [300_000, 400_000])
def test_a_server_that_tells_no_size_sends_neither_more_nor_less_than_is_published(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRIES", 0)
    with serve(content=CONTENT, silent=True) as site:
        if length < len(CONTENT):
            assert "must have the checksum" in failure(site.url, tmp_path / "birds.tgz", size=length)
        else:
            site.breaks = [1000]
            assert "ended after 1.0 kB of 400.0 kB" in failure(site.url, tmp_path / "birds.tgz", size=length)


def test_errors_that_may_pass_are_waited_for_ever_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(module.time, "sleep", waited.append)
    with serve(content=CONTENT, errors=[503, 429, 500]) as site:
        download(site.url, tmp_path / "birds.tgz", SHA)
    assert waited == [1.0, 2.0, 4.0]
    with serve(content=CONTENT, errors=[503] * 20) as site, pytest.raises(UserError, match="503 Service"):
        download(site.url, tmp_path / "again.tgz", SHA)
    assert waited[3:] == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_file_that_is_not_there_is_one_line_at_once(tmp_path: Path) -> None:
    with serve(errors=[404]) as site:
        why = failure(site.url, tmp_path / "birds.tgz")
        assert why.startswith(
            f"{site.url} cannot be fetched (404 Not Found); try again later, or fetch it by"
        )
        assert len(site.asked) == 1


def test_without_a_network_it_is_one_line_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-3, "Temporary failure in name resolution")

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/birds.tgz"
        assert "cannot be fetched ([Errno 111] Connection refused)" in failure(url, tmp_path / "birds.tgz")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    why = failure("https://data.example/birds.tgz", tmp_path / "birds.tgz")
    assert "https://data.example/birds.tgz cannot be fetched (no such host, or no network); try again" in why


@pytest.mark.parametrize(
    "url", ["http://data.example/b.tgz", "ftp://data.example/b.tgz", "file:///etc/passwd"]
)
def test_only_https_is_spoken_also_after_a_redirect(url: str, tmp_path: Path) -> None:
    assert f"data sets are fetched by https; got {url}." in failure(url, tmp_path / "birds.tgz")
    with serve(redirect=url) as site:
        why = failure(site.url, tmp_path / "birds.tgz")
    assert url in why
    assert "by https; got" in why or "is not allowed" in why  # the second are urllib's own words


def test_a_proxy_of_the_environment_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(content=CONTENT) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/birds.tgz"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        download("http://127.0.0.2:9/birds.tgz", tmp_path / "birds.tgz", SHA)
        assert proxy.asked == [("http://127.0.0.2:9/birds.tgz", None)]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with serve(content=CONTENT) as site:
        assert "cannot be written (" in failure(site.url, tmp_path / "file" / "birds.tgz")


def test_a_file_on_the_disk_is_checked_by_size_and_checksum(tmp_path: Path) -> None:
    file = tmp_path / "birds.tgz"
    file.write_bytes(CONTENT)
    verify_file(file, SHA, len(CONTENT))
    verify_file(file, "")
    with pytest.raises(
        UserError, match=r"birds\.tgz must have 7 bytes and the checksum sha256:[0-9a-f]+; got 400,000 b"
    ):
        verify_file(file, SHA, 7)
    with pytest.raises(
        UserError, match=r"birds\.tgz must have 7 bytes; got 400,000 bytes\. It is incomplete or"
    ):
        verify_file(file, "", 7)
    with pytest.raises(
        UserError, match=r"birds\.tgz must have the checksum md5 0+; got [0-9a-f]{32}\. It is"
    ):
        verify_file(file, "md5:" + "0" * 32)
    with pytest.raises(UserError, match=r"none cannot be read \(No such file"):
        verify_file(tmp_path / "none", SHA)

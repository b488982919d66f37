"""URIs of event logs: what their parts mean, and that nothing that could be a secret is ever shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.config.project_file import load_project
from penstock.errors import ConfigError
from penstock.model.event_log_uris import EventLogUri, EventLogUriError, parse_event_log_uri, place_event_log

MARKER = "hunter2"


@pytest.mark.parametrize(
    ("text", "scheme", "place", "path"),
    [
        ("sqlite:///a/b.db", "sqlite", "", "a/b.db"),
        ("sqlite:////a/b.db", "sqlite", "", "/a/b.db"),
        ("SQLite:///a%25b%3F%23.db", "sqlite", "", "a%b?#.db"),
        ("sqlite:///me@work/my log.db?synchronous=full", "sqlite", "", "me@work/my log.db"),
        ("delta:////srv/log?cache=/tmp/c", "delta", "", "/srv/log"),
        ("delta+s3://bucket/a/b/?aws_region=eu", "delta+s3", "bucket", "a/b"),
        ("delta+azure://container/a%40b", "delta+azure", "container", "a@b"),
        ("postgresql://u:p%40%2F@h:5432/d%20b", "postgresql", "h:5432", "d b"),
        ("postgres://h/d", "postgresql", "h", "d"),
        ("postgresql://[::1]:5432,other/d", "postgresql", "[::1]:5432,other", "d"),
        ("postgresql:///d?host=/socket&user=u", "postgresql", "", "d"),
        ("memory://", "memory", "", ""),
        ("memory://?deadline_seconds=3", "memory", "", ""),
    ],
)
def test_the_parts_of_a_uri(text: str, scheme: str, place: str, path: str) -> None:
    found = parse_event_log_uri(text)
    assert (found.scheme, found.place, found.path) == (scheme, place, path)


def test_credentials_and_options_are_decoded() -> None:
    found = parse_event_log_uri("postgresql://a%40b:%23%25@h/d?sslmode=require&options=-c%20search_path%3Dx+y")
    assert (found.user, found.password) == ("a@b", "#%")
    assert found.options == {"sslmode": "require", "options": "-c search_path=x+y"}
    assert parse_event_log_uri("postgresql://u@h/d").password is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("sqlite:///x", 60),
        ("sqlite:///x?busy_seconds=5", 5),
        ("sqlite:///x?busy_seconds=0", 0),
        ("sqlite:///x?busy_seconds=5&deadline_seconds=2.5", 2.5),
        ("delta:////x?deadline_seconds=3", 3),
        ("postgresql://h/d?deadline_seconds=0.5", 0.5),
        ("memory://?deadline_seconds=3", 3),
    ],
)
def test_one_option_for_the_deadline_of_every_backend(text: str, seconds: float) -> None:
    assert parse_event_log_uri(text).deadline_seconds == seconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mysql://hunter2@h/d", "must be a URI"),
        ("/a/hunter2", "must be a URI"),
        ("sqlit:///hunter2", "did you mean `sqlite`?"),
        ("sqlite://hunter2/x.db", "three slashes"),
        ("sqlite:hunter2", "must be a URI"),
        ("sqlite:///", "three slashes"),
        ("sqlite:///x:memory:", "memory://"),
        ("sqlite:///x.db?key=hunter2", "unknown option"),
        ("sqlite:///x.db?hunter2", "name=value"),
        ("sqlite:///x.db?synchronos=hunter2", "did you mean `synchronous`?"),
        ("sqlite:///x.db?deadline_seconds=hunter2", "number of seconds"),
        ("sqlite:///x.db?deadline_seconds=0", "number of seconds"),
        ("sqlite:///x.db?deadline_seconds=nan", "number of seconds"),
        ("sqlite:///x.db?deadline_seconds=1e400", "number of seconds"),
        ("sqlite:///x.db#hunter2", "write # as %23"),
        ("sqlite:///x%zz", "hexadecimal digits"),
        ("sqlite:///x%00", "not UTF-8"),
        ("sqlite:///x%FF", "not UTF-8"),
        ("sqlite:///x\n", "control character"),
        ("delta:////x?aws_region=hunter2", "unknown option"),
        ("delta+s3://KEY:hunter2@bucket/p", "AWS_SECRET_ACCESS_KEY"),
        ("delta+s3://KEY:hun/ter2@bucket/p", "AWS_SECRET_ACCESS_KEY"),
        ("delta+s3://KEY/hunter2@bucket/p", "AWS_SECRET_ACCESS_KEY"),
        ("delta+s3://bucket", "folder in the store"),
        ("delta+s3:///hunter2", "no bucket"),
        ("delta+s3://bucket/a%3Fb", "another folder"),
        ("delta+s3://hun ter2/x", "characters that none can have"),
        ("delta+s3://bucket/x?aws_secret_access_key=hunter2", "is a secret"),
        ("delta+s3://bucket/x?hunter2_token=x", "is a secret"),
        ("delta+azure://bucket/x?azure_storage_sas_key=hunter2", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("postgresql://u:hunter2#x@h/d", "write # as %23"),
        ("postgresql://u:hunter2%zz@h/d", "hexadecimal digits"),
        ("postgresql://u:hun/ter2@h/d", "%-encoded"),
        ("postgresql://u:hun@ter2@h/d", "%-encoded"),
        ("postgresql://u:hunter2@h:port/d", "%-encoded"),
        ("postgresql://u:hunter2@h", "no database"),
        ("postgresql://u:hun?ter2@h/d", "%-encoded"),
        ("postgresql://u:12?ter2@h/d", "%-encoded"),
        ("postgresql://u:12/ter2@h/d", "%-encoded"),
        ("postgresql://u@h/d?password", "name=value"),
        ("delta+s3://KEY?ter2@bucket/p", "AWS_SECRET_ACCESS_KEY"),
        ("postgresql://u:hunter2@h/d?deadline_seconds=x", "number of seconds"),
    ],
)
def test_a_wrong_uri_is_explained_without_what_could_be_secret(text: str, words: str) -> None:
    with pytest.raises(EventLogUriError) as caught:
        parse_event_log_uri(text)
    said = f"{caught.value} {caught.value.hint}"
    assert words in said
    assert caught.value.hint
    assert "hunter2" not in f"{said} {caught.value!r} {caught.value.problem}"
    assert not re.search("ter2|u:12|KEY[/?]", said)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20))
def test_the_shown_uri_of_a_file_is_that_file_again(name: str) -> None:
    assume(name.strip("/") and ":memory:" not in name)
    for scheme in ("sqlite", "delta"):
        for path in (name, f"/srv/{name}"):
            shown = EventLogUri(scheme, "", path).shown
            assert parse_event_log_uri(shown).path == path


def test_a_relative_path_is_below_a_folder_and_keeps_its_options(tmp_path: Path) -> None:
    root = tmp_path / "50% of a?#b"
    placed = place_event_log("sqlite:///logs/../e%25.db?synchronous=full&deadline_seconds=3", root)
    found = parse_event_log_uri(placed)
    assert found.path == f"{root}/e%.db"
    assert found.options == {"synchronous": "full", "deadline_seconds": "3"}
    assert place_event_log("sqlite:////srv/e.db", root) == "sqlite:////srv/e.db"
    assert place_event_log("postgres://u:p%40@h/d", root) == "postgres://u:p%40@h/d"
    cached = parse_event_log_uri(place_event_log("delta:///log?cache=/a b%26c", root))
    assert cached.options == {"cache": "/a b&c"}


def test_texts_of_other_programs_are_cleaned() -> None:
    uri = parse_event_log_uri("postgresql://ana:pw@h/d?options=-csearch_path%3Dprivate&sslmode=x%26y")
    text = 'user "ana" (pw) not in private, x&y; analysis of pwd, x%26y'
    assert uri.hide(text) == 'user "***" (***) not in ***, ***; analysis of pwd, ***'
    assert uri.describe(ValueError("")) == "ValueError"
    long = "n" * 70
    assert parse_event_log_uri(f"postgresql://{long}@h/d").hide(f'role "{long[:63]}"') == 'role "***"'


PIECES = st.sampled_from(
    [MARKER, "u", ":", "@", "/", "//", "?", "#", "%", "%zz", "%2", "%40", "&", "=", " ", "h", ",", "[", "]", "é", "\t"]
)
SCHEMES = st.sampled_from(
    ["sqlite://", "sqlite:///", "delta:///", "delta+s3://", "delta+gs://b/p", "postgresql://", "postgres://h", "x://"]
)
SECRETIVE = st.sampled_from(
    [
        "u:{}@h/d",
        "{}:p@h/d",
        "{}@h/d",
        ":{}@/d",
        "h/d?{}",
        "h/d?password={}",
        "h/d?{}=1",
        "h/d?a=1&deadline_seconds={}",
        "h/d#{}",
        "u:{}%@h/d",
        "h/d?x=%zz{}",
        "KEY:{}@bucket/p",
        "KEY:{}/x@bucket/p",
        "/x.db?key={}",
        "/x.db?synchronous={}",
        "/x.db#{}",
    ]
)


def _shown_in_path(text: str) -> bool:
    """Whether the marker is the path, bucket or host of a valid URI: what its user calls a file is no secret."""
    try:
        found = parse_event_log_uri(text)
    except ConfigError:
        return False
    return MARKER in f"{found.place}{found.path}"


def _secrets(found: EventLogUri) -> list[str]:
    return [str(found.user), str(found.password), *found.options.values()]


@settings(max_examples=400)
@given(SCHEMES, SECRETIVE, st.lists(PIECES, max_size=5).map("".join), st.lists(PIECES, max_size=5).map("".join))
def test_no_text_shows_a_secret_of_a_uri(
    tmp_path_factory: pytest.TempPathFactory, scheme: str, form: str, before: str, after: str
) -> None:
    text = f"{scheme}{form.format(f'{before}{MARKER}{after}')}"
    assume(not _shown_in_path(text))
    said: list[str] = []
    try:
        found = parse_event_log_uri(text)
        said += [repr(found), str(found), found.shown, found.hide(" ".join(_secrets(found)))]
    except ConfigError as error:
        said += [str(error), str(error.hint), repr(error), repr(error.__context__), repr(error.__cause__)]
    file = tmp_path_factory.getbasetemp() / "uris" / "penstock.yml"
    file.parent.mkdir(exist_ok=True)
    file.write_text("name: x\n")
    try:
        said.append(repr(load_project(file, environment={"PENSTOCK__EVENT_LOG": text})))
    except ConfigError as error:
        said += [str(error), str(error.hint), repr(error), repr(error.__context__), repr(error.__cause__)]
    assert not re.search(MARKER, " ".join(said), re.IGNORECASE), said

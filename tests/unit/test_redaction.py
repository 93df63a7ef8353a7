"""Secrets are masked by value and by form; what is no secret stays readable."""

from __future__ import annotations

import traceback
from urllib.parse import quote

import pytest

from lakehouse.errors import ConfigurationError
from lakehouse.redaction import MOST, Redacted, cleaned, redacted, remember, secrets_in

PLANTED = "pl4nted/Se+cret key\"'"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql+psycopg2://lake:hunter22@db:5432/x", "postgresql+psycopg2://lake:***@db:5432/x"),
        ("postgresql://lake:p@ss@db/x failed", "postgresql://lake:***@db/x failed"),
        ("proxy http://u:pw@proxy:3128 and http://host:80/a@b", "proxy http://u:***@proxy:3128 and http://host:80/a@b"),
        (
            "GET https://b/k?X-Amz-Credential=AKIA%2Fx&X-Amz-Signature=abc123&x=1",
            "GET https://b/k?X-Amz-Credential=***&X-Amz-Signature=***&x=1",
        ),
        (
            "https://b/k?AWSAccessKeyId=AKIA1&Signature=Zm9v%3D&Expires=1",
            "https://b/k?AWSAccessKeyId=***&Signature=***&Expires=1",
        ),
        ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.x", "Authorization: Bearer ***"),
        ("x-amz-security-token:FwoGZXIvYXdzEBY", "x-amz-security-token:***"),
        (
            "Max retries exceeded with url: /x?a=1&token=s3cr3tvalue (x)",
            "Max retries exceeded with url: /x?a=1&token=*** (x)",
        ),
        ("GET http://h/x?my-api_key=k1&b=2", "GET http://h/x?my-api_key=***&b=2"),
        ("host=db password=hunter22 user=lake", "host=db password=*** user=lake"),
    ],
)
def test_forms_that_give_a_secret_away(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "cannot list: uri=s3://landing/orders/ endpoint=http://127.0.0.1:8333 status=403 code=SignatureDoesNotMatch",
        "password authentication failed for user lake; Basic authentication, Bearer token expired",
        "the listing gave the same continuation token twice",
        "file:///srv/a@b:c, s3://landing/day=2026-08-30/a b@c.csv",
    ],
)
def test_other_words_stay(text: str) -> None:
    remember(["", "short"])
    assert redacted(text) == text


@pytest.mark.parametrize(
    "written", [PLANTED, "pl4nted%2FSe%2Bcret%20key%22%27", "pl4nted%2FSe%2Bcret+key%22%27", "pl4nted/Se+cret key\\\"'"]
)
def test_a_remembered_secret_is_masked_however_it_is_quoted(written: str) -> None:
    remember([PLANTED])
    assert redacted(f"a {written} b") == "a *** b"


def test_the_newest_secrets_are_kept_and_our_own_name_is_none() -> None:
    remember(["the-first-token", "lakehouse"])
    assert redacted("lakehouse load, the-first-token") == "lakehouse load, ***"
    remember(f"token-number-{number}" for number in range(MOST))
    assert redacted("the-first-token token-number-0") == "the-first-token ***"


def test_secrets_are_found_by_the_names_of_variables_and_properties() -> None:
    values = {
        "AWS_SECRET_ACCESS_KEY": "one",
        "AWS_SESSION_TOKEN": "two",
        "PYICEBERG_CATALOG__DEFAULT__CREDENTIAL": "client:three",
        "uri": "postgresql://lake:four@db/x",
        "token": "five",
        "HTTPS_PROXY": "http://me:six@proxy:1",
        "s3.secret-access-key": "seven",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
        "oauth2-server-uri": "http://catalog/v1/oauth/tokens",
        "AWS_ACCESS_KEY_ID": "AKIA",
        "token-refresh-enabled": "true",
    }
    assert set(secrets_in(values)) - {""} == {
        "one", "two", "client:three", "three", "four", "five", "six", "seven",
    }  # fmt: skip


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/x?token=pl4ntedvalue",
        "http://127.0.0.1:1/x?a=1&api_key=pl4ntedvalue&token_type=bearer#end",
        "https://bob:pl4ntedvalue@127.0.0.1:1/x?token=",
        "bob:pl4ntedvalue@127.0.0.1:1",
        "bob:pl4nted%76alue@127.0.0.1:1/x",
    ],
)
def test_secrets_are_found_in_addresses(address: str) -> None:
    found = {*secrets_in({"PYICEBERG_CATALOG__DEFAULT__URI": address})}
    assert "pl4ntedvalue" in found and not {"bearer", "127.0.0.1:1"} & found


def test_a_time_and_a_name_are_no_address_with_a_password() -> None:
    assert not {*secrets_in({"NOTE": "at 10:30 mail a@b", "GREETING": "to:somebody@example.com", "URI": "a@b:c"})}


def test_an_error_of_ours_has_none_wherever_it_is_asked() -> None:
    remember([PLANTED])
    error = ConfigurationError(f"refused: {PLANTED}", next=f"curl http://u:{quote(PLANTED, safe='')}@h")
    assert "pl4nted" not in f"{error} {error!r} {error.message} {error.args}"
    assert "pl4nted" not in error.next
    late = ConfigurationError("refused: not-yet-known")
    remember(["not-yet-known"])
    assert "not-yet" not in str(late)


def failing(own: bool) -> BaseException:
    """A foreign error behind others, one of which says the secret."""
    try:
        try:
            try:
                raise OSError(5, f"answer: {PLANTED}")
            except OSError as error:
                error.add_note(PLANTED)
                raise ValueError("clean in the middle") from error
        except ValueError as error:
            raise (ConfigurationError("ours") if own else RuntimeError(f"top {PLANTED}")) from error
    except (ConfigurationError, RuntimeError) as error:
        return error


@pytest.mark.parametrize("own", [True, False])
def test_a_traceback_shows_no_secret_and_keeps_its_frames(own: bool) -> None:
    remember([PLANTED])
    error = failing(own)
    dirty = "".join(traceback.format_exception(error))
    clean = cleaned(error)
    text = "".join(traceback.format_exception(clean))
    assert "pl4nted" in dirty
    assert "pl4nted" not in text
    assert "clean in the middle" in text
    assert "OSError: [Errno 5] answer: ***" in text
    assert text.count("in failing") == dirty.count("in failing")
    assert (clean is error) is own
    assert isinstance(clean, ConfigurationError if own else Redacted)


def test_a_group_and_a_ring_of_errors_end() -> None:
    remember([PLANTED])
    group = ExceptionGroup("several", [ValueError(PLANTED)])
    group.__context__ = other = KeyError("x")
    other.__context__ = group
    assert "pl4nted" not in "".join(traceback.format_exception(cleaned(group)))

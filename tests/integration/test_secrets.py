"""A catalog's properties may name secrets of AWS Secrets Manager, here moto's; they are fetched, and never shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.utils.config import Config

from lakehouse.catalog import open_catalog
from lakehouse.errors import ConfigurationError, Unavailable
from lakehouse.secrets import SecretName, fetch_secret, secret_named
from tests.conftest import RunningStack
from tests.lake import DAY_1, Lake, csv, order
from tests.services.faulty_http import FaultyHttp, Forward, Reply, Request
from tests.services.glue import operation, refused

CREDENTIAL = "PYICEBERG_CATALOG__DEFAULT__CREDENTIAL"
KEPT = "lake/catalog"


@pytest.fixture
def manager(stack: RunningStack, glue: FaultyHttp, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the service that holds the stack's own keys as a secret."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", glue.url)
    client = boto3.client("secretsmanager", region_name="us-east-1", endpoint_url=glue.url)
    keys = f"{stack.stack.access_key}:{stack.stack.secret_key}"
    client.create_secret(Name=KEPT, SecretString=json.dumps({"credential": keys, "port": 5432}))
    client.create_secret(Name="lake/plain", SecretString=keys)
    client.create_secret(Name="lake/bytes", SecretBinary=b"123")
    yield client
    for name in (KEPT, "lake/plain", "lake/bytes"):
        client.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


Opened = Callable[[str], Catalog]


@pytest.fixture
def opened(manager: Any, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The catalog, its credential written like that."""

    def open_with(credential: str) -> Catalog:
        monkeypatch.setenv(CREDENTIAL, credential)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        return open_catalog("default")

    return open_with


@pytest.mark.parametrize("named", ["aws:lake/catalog#credential", "aws:lake/plain", "ARN#credential"])
def test_a_catalog_opens_with_a_credential_from_secrets_manager(manager: Any, opened: Opened, named: str) -> None:
    arn = manager.describe_secret(SecretId=KEPT)["ARN"]
    catalog = opened(f"{{secret: {named.replace('ARN', 'aws:' + arn)}}}")
    assert catalog.list_namespaces() is not None


@pytest.mark.parametrize(
    "lines", ["credential: '{secret: aws:lake/plain}'", "credential:\n      secret: aws:lake/catalog#credential"]
)
def test_the_configuration_file_names_secrets_in_both_forms(
    lines: str, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  default:\n    {lines}\n")
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.delenv(CREDENTIAL)
    assert open_catalog("default").list_namespaces() is not None


def test_a_load_with_it_says_nothing_of_it(
    manager: Any, stack: RunningStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(stack, tmp_path)
    lake.put(DAY_1, "a.csv", csv(order(1)))
    monkeypatch.setattr(Lake, "env", lake.env | {CREDENTIAL: "{secret: aws:lake/catalog#credential}"})
    for arguments in (("load", lake.table), ("doctor", lake.table), ("plan", lake.table)):
        code, said, more = lake.said(*arguments, "--json")
        assert code == 0, more
        assert stack.stack.secret_key not in f"{said}{more}"


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ("aws:absent#x", "the secret does not exist: secret=aws:absent#x"),
        ("aws:lake/catalog#absent", "no JSON object with that key"),
        ("aws:lake/plain#credential", "no JSON object with that key"),
        ("aws:lake/bytes", "holds bytes"),
        ("vault:lake/catalog", "named in a way that is not known"),
    ],
)
def test_a_secret_that_cannot_be_had_is_named(opened: Opened, named: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        opened(f"{{secret: {named}}}")


def test_a_missing_right_is_named(
    manager: Any, glue: FaultyHttp, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def between(request: Request, forward: Forward) -> Reply:
        return refused("GetSecretValue") if operation(request) == "GetSecretValue" else forward(request)

    with FaultyHttp(glue.url, between=between).running() as refusing:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", refusing.url)
        with pytest.raises(ConfigurationError, match="refuses us: secret=aws:lake/plain") as caught:
            opened("{secret: aws:lake/plain}")
    assert "secretsmanager:GetSecretValue" in caught.value.next


def test_a_service_that_is_not_there_is_unavailable(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://127.0.0.1:9")
    with pytest.raises(Unavailable, match="does not answer: secret=aws:lake/plain"):
        opened("{secret: aws:lake/plain}")


def test_a_number_is_a_text(manager: Any, stack: RunningStack) -> None:
    assert fetch_secret(SecretName(KEPT, "port"), {**stack.env}) == "5432"


def test_other_values_name_no_secret() -> None:
    assert [
        secret_named(value) for value in ("aws:x", "{env: x}", "secret: aws:x", {"secret": "aws:x", "y": 1}, 5)
    ] == [None] * 5
    assert secret_named({"secret": "aws:arn:aws:secretsmanager:eu-west-1:1:secret:x-AbCdEf#k"}) == SecretName(
        "arn:aws:secretsmanager:eu-west-1:1:secret:x-AbCdEf", "k"
    )

"""Where S3 is, as the environment says it; the credentials themselves are tried against a storage elsewhere."""

from __future__ import annotations

import pytest

from lakehouse.doctor.machine import check_credentials
from lakehouse.errors import ConfigurationError
from lakehouse.storage.credentials import find_access

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
WRONG = ["http://127.0.0.1:99999", "http://127.0.0.1:banana", "http://127.0.0.1:0", "http://[::1", "landing", "http://"]


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])
def test_a_wrong_endpoint_is_refused_by_its_variable_and_value(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        find_access({**KEYS, name: value}, subject="s3://landing/")
    assert f"{name}={value}" in refused.value.message and name in refused.value.next


@pytest.mark.parametrize("value", ["http://127.0.0.1:8333", "https://s3.example.com/", "http://[::1]:80/base"])
def test_a_right_endpoint_is_taken(value: str) -> None:
    assert find_access({**KEYS, "AWS_ENDPOINT_URL_S3": value}, subject="s3://x/").endpoint == value.rstrip("/")


def test_doctor_blames_the_endpoint_and_no_credentials() -> None:
    (check,) = check_credentials({**KEYS, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:99999"})
    assert check.exit_code == 2 and "99999" in check.detail and "AWS_ENDPOINT_URL_S3" in check.next

"""The policies of docs/iam allow what the commands need, and nothing else: S3, Glue and Secrets Manager are reached
through doors that refuse what the policy does not allow, and every action and resource of a policy was needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import dagster as dg
import pytest
from pyiceberg.utils.config import Config

from lakehouse.orchestration import build_definitions
from tests.catalogs import CatalogLake, glue_stack
from tests.conftest import RunningStack
from tests.lake import DAY_1, Lake, csv, order
from tests.services.faulty_http import FaultyHttp, Forward, Reply, Request
from tests.services.glue import operation, refused
from tests.services.iam import ACCOUNT, Call, Policy, listing_of, of_glue, of_s3
from tests.services.s3_door import s3_door

DOCS = Path(__file__).parents[2] / "docs" / "iam"
BUCKET = "iam-tables"
SECRET = "lake/iam"


@dataclass
class Guarded:
    """A lake on Glue whose every request is looked up in a policy, which can be changed."""

    lake: GuardedLake
    policy: Policy
    refused: list[Call]

    def runs(self, *arguments: str, code: int = 0) -> None:
        self.refused.clear()
        ended, _, more = self.lake.said(*arguments)
        assert (ended, self.refused) == (code, []), f"{arguments} {more}"


class GuardedLake(CatalogLake):
    """Where landing objects and state are reached comes from the environment."""

    more_env: dict[str, str]

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, **self.more_env, "LAKEHOUSE_OPS_NAMESPACE": f"{self.name}_ops"}

    def services(self, **changes: Any) -> Any:
        return Lake.services(self, **changes)


@contextmanager
def guarded(stack: RunningStack, glue: FaultyHttp, folder: Path) -> Iterator[Guarded]:
    made: list[Guarded] = []

    def allowed(call: Call) -> bool:
        if made and not made[0].policy.allows(call):
            made[0].refused.append(call)
            return False
        return True

    def between(request: Request, forward: Forward) -> Reply:
        return forward(request) if allowed(of_glue(request)) else refused(operation(request))

    with ExitStack() as opened:
        aws = opened.enter_context(FaultyHttp(glue.url, between=between).running())
        door = opened.enter_context(s3_door(stack.stack.s3_endpoint))
        door.refuse = lambda one: None if allowed(of_s3(one)) else ("AccessDenied", 403)
        door.hidden = lambda one: not made[0].policy.allows(listing_of(one))
        on_glue = glue_stack(stack, aws)
        files = {"warehouse": f"s3://{BUCKET}/warehouse", "s3.endpoint": door.url}
        lake = GuardedLake(replace(on_glue, properties={**on_glue.properties, **files}), folder)
        lake.gates = "max_rejected_ratio: 0.4"
        lake.more_env = {
            "AWS_ENDPOINT_URL_S3": door.url,
            "AWS_ENDPOINT_URL_SECRETS_MANAGER": aws.url,
            "PYICEBERG_CATALOG__DEFAULT__GLUE__SECRET_ACCESS_KEY": f"{{secret: aws:{SECRET}}}",
        }
        lake.write_declaration()
        made.append(Guarded(lake, policy("load", lake), []))
        yield made[0]


def policy(name: str, lake: Lake) -> Policy:
    return Policy.read(
        DOCS / f"{name}.json",
        {
            "LANDING_BUCKET": "landing",
            "LANDING_PREFIX": lake.name,
            "STATE_BUCKET": "state",
            "STATE_PREFIX": lake.name,
            "TABLES_BUCKET": BUCKET,
            "TABLES_PREFIX": "warehouse",
            "REGION": "us-east-1",
            "ACCOUNT": ACCOUNT,
            "NAMESPACE": lake.name,
            "lakehouse_ops": f"{lake.name}_ops",
            "SECRET": SECRET,
        },
    )


@pytest.fixture
def here(stack: RunningStack, glue: FaultyHttp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    stack.s3.create_bucket(Bucket=BUCKET)
    keeper = boto3.client("secretsmanager", region_name="us-east-1", endpoint_url=glue.url)
    keeper.create_secret(Name=SECRET, SecretString="nothing-of-value")
    with guarded(stack, glue, tmp_path) as made:
        for name, value in made.lake.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
        yield made
    keeper.delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)


def ticked(lake: Lake) -> None:
    """The sensor looks for what is new."""
    repository = build_definitions([lake.declaration]).get_repository_def()
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, repository_def=repository)
        found = repository.get_sensor_def(f"{lake.name}__orders_landing").evaluate_tick(context)
    assert found.run_requests


def test_what_the_policies_allow_is_what_is_needed(here: Guarded) -> None:
    lake, table = here.lake, here.lake.table
    here.runs("doctor")
    lake.put(DAY_1, "a.csv", csv(*(order(number) for number in range(50))))
    ticked(lake)
    assert here.refused == []
    here.runs("plan", table)
    here.runs("load", table)
    lake.put(DAY_1, "b.csv", csv(order(1, "2.00", 5), order(99)))
    here.runs("load", table)
    lake.put(DAY_1, "c.csv", csv(order(1, "none", 5)))
    here.runs("load", table, code=1)  # blocked: rejects and staged rows are exported
    lake.put(DAY_1, "c.csv", csv(order(1, "3.00", 6)))
    here.runs("load", table)
    here.runs("reconcile", table, "--reread")
    here.runs("hold", table, "--reason", "x")
    here.runs("release", table, "--reason", "x")
    here.runs("maintain", table, "compact", "--reason", "x")
    here.runs("maintain", table, "expire", "--older-than", "0s", "--reason", "x")
    here.runs("maintain", table, "orphans", "--older-than", "1d", "--reason", "x")
    here.runs("ledger", "rebuild", table)
    here.runs("doctor", table)
    assert here.policy.unused() == set()

    here.policy = policy("read", lake)
    lake.put(DAY_1, "d.csv", csv(order(7)))
    ticked(lake)
    for command in (("plan", table), ("status",), ("diagnose",), ("batches", table), ("files", table)):
        here.runs(*command)
    here.runs("explain", f"s3://landing/{lake.name}/input_date={DAY_1}/d.csv")
    here.runs("bookmark", "show", table)
    here.runs("bookmark", "history", table)
    here.runs("rejects", "show", table)
    here.runs("reconcile", table)
    assert here.policy.unused() == set()
    assert here.lake.said("load", table)[0] == 2
    assert "s3:PutObject" in {call.action for call in here.refused}


def test_the_matching_of_policies_refuses() -> None:
    statement = {
        "Sid": "x", "Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::b",
        "Condition": {"StringLike": {"s3:prefix": "in/*"}},
    }  # fmt: skip
    made = Policy([statement])
    assert not made.allows(Call("s3:GetObject", ("arn:aws:s3:::b",), "in/a"))
    assert not made.allows(Call("s3:ListBucket", ("arn:aws:s3:::b",), "inner/a"))
    assert not made.allows(Call("s3:ListBucket", ("arn:aws:s3:::b", "arn:aws:s3:::c"), "in/a"))
    assert made.unused() == {("x", "s3:ListBucket"), ("x", "arn:aws:s3:::b")}
    assert made.allows(Call("s3:ListBucket", ("arn:aws:s3:::b",), "in/a"))
    assert made.unused() == set()


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.json")), ids=lambda path: path.name)
def test_a_policy_allows_no_wild_card_of_actions_and_fits_into_a_role(path: Path) -> None:
    text = path.read_text()
    assert not re.findall(r'"(?:s3|glue|secretsmanager):[A-Za-z]*\*', text)
    assert len("".join(text.split())) < 6144  # the most of a managed policy

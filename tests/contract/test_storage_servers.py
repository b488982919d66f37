"""What the tests on object stores rest on: the servers give put-if-absent one winner, and check the key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import AzureStore, S3Store

from tests.storage_servers import open_azure, open_s3

WRITERS = 8
RACES = 25


def race(store: S3Store | AzureStore, path: str) -> list[int]:
    """The writers whose put-if-absent of one path was accepted, all having started at once."""
    start = Barrier(WRITERS)

    def write(writer: int) -> bool:
        start.wait(60)
        try:
            obstore.put(store, path, str(writer).encode() * 1000, mode="create")
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as threads:
        return [writer for writer, won in enumerate(threads.map(write, range(WRITERS))) if won]


def check_races(store: S3Store | AzureStore) -> None:
    for number in range(RACES):
        path = f"races/{number}/_delta_log/00000000000000000001.json"
        (winner,) = race(store, path)
        assert bytes(obstore.get(store, path).bytes()) == str(winner).encode() * 1000


def test_put_if_absent_has_one_winner_on_s3(s3_environment: dict[str, str]) -> None:
    check_races(open_s3(s3_environment))


def test_put_if_absent_has_one_winner_on_azure(azure_environment: dict[str, str]) -> None:
    check_races(open_azure(azure_environment))


def test_a_wrong_key_is_refused(s3_environment: dict[str, str]) -> None:
    stranger = open_s3({**s3_environment, "AWS_SECRET_ACCESS_KEY": "wrong"})
    with pytest.raises(BaseError):
        obstore.put(stranger, "x", b"x")

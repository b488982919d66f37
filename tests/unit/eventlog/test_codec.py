from __future__ import annotations

import json

from contract.events import Maker, generated_history
from penstock.eventlog import codec
from penstock.model.events import Unreadable
from penstock.model.status import BuildStatus


def test_every_event_survives_json() -> None:
    for event in [*Maker().one_of_each(), *generated_history(300)]:
        value = codec.to_json(event)
        assert codec.from_json(json.loads(codec.to_text(value))) == event
        assert set(value) == {"event_id", "timestamp", "build_request_id", "event_type", event.event_type.value}


def test_a_status_is_stored_as_code_and_name() -> None:
    (first, *_) = Maker().one_of_each()
    fields = codec.to_json(first)["build_request"]
    assert (fields["status_code"], fields["status_name"]) == (1, "RECEIVED")


def test_newer_data_is_read_as_far_as_possible() -> None:
    assert codec.to_status(BuildStatus, 88) is BuildStatus.UNKNOWN
    fields = {"status_code": 88, "status_name": "NEW", "requested_partitions": [], "message": "", "added_later": 1}
    assert codec.from_fields("build_request", fields).event_type == "build_request"
    assert codec.from_fields("surprise", {}) == Unreadable("surprise", codec.UNKNOWN_TYPE)
    assert codec.from_fields("partition", {}) == Unreadable("partition", codec.DAMAGED)

"""Texts are taken out of events as whole words: a personal value that is part of a name must not rename a dataset."""

from __future__ import annotations

import pytest

from penstock.eventlog.redaction import without_texts
from penstock.model.events import BuildRequest, BuildStatus, Event


@pytest.mark.parametrize(
    ("text", "message", "left"),
    [
        ("customer", "staging.customers main.customer customer", "staging.customers main.customer [redacted]"),
        ("customer", "main.customer_value", "main.customer_value"),
        ("ann@example.org", "mailto:ann@example.org. joann@example.org", "mailto:[redacted]. joann@example.org"),
        ("ann@example.org", "ann@example.org.uk", "ann@example.org.uk"),
        ("ann@example.org", "people/email=ann@example.org/x 'ann@example.org'", "people/email=[redacted]/x '[redacted]'"),
        ('"O\'Neil (x)"', 'he said"O\'Neil (x)"twice', "he said[redacted]twice"),
    ],
)  # fmt: skip
def test_only_whole_words_go(text: str, message: str, left: str) -> None:
    event = Event("e", 1, "b", BuildRequest(BuildStatus.FAILED, ("staging.customers",), message))
    found = without_texts(event, [text])
    assert found.payload == BuildRequest(BuildStatus.FAILED, ("staging.customers",), left)

"""When deletes are checked."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.kinds.table_load.schedule import is_check_due

NOW = datetime(2024, 5, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "checked", "expected"),
    [
        ("always", "2024-05-02T11:59:59Z", True),
        ("never", None, False),
        ("daily", None, True),
        ("daily", "2024-05-02T00:00:01Z", False),
        ("daily", "2024-05-01T23:59:59Z", True),
        ("daily", "2024-05-02T01:00:00+02:00", True),
        ("0 3 * * *", "2024-05-02T02:59:00Z", True),
        ("0 3 * * *", "2024-05-02T03:00:00Z", False),
        ("*/15 * * * *", "2024-05-02T11:46:00Z", True),
        ("0 0 * * 1", "2024-04-30T00:00:00Z", False),
    ],
)
def test_a_check_is_due_by_its_rule(rule: str, checked: str | None, expected: bool) -> None:
    assert is_check_due(rule, checked, NOW) is expected

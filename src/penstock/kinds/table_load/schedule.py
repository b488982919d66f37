"""When deletes are due to be checked. Pure."""

from __future__ import annotations

from datetime import datetime

from penstock.model.schedules import to_schedule


def is_check_due(rule: str, checked_at: str | None, now: datetime) -> bool:
    """Whether the rule (`always`, `daily`, `never` or a cron expression in UTC) asks for a check after the last one."""
    if rule in {"always", "never"}:
        return rule == "always"
    if checked_at is None:
        return True
    last = datetime.fromisoformat(checked_at).astimezone(now.tzinfo)
    if rule == "daily":
        return now.date() > last.date()
    due = to_schedule(rule).next_after(last)
    return due is not None and due <= now

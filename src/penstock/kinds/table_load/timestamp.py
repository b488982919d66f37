"""Timestamp loads: rows since the watermark, exactly once; merged by key, or appended. The watermark commits with the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.databases.contract import Landed, Moment, Wanted, Window
from penstock.errors import SourceError, VerificationError
from penstock.faults import fault_point
from penstock.kinds.table_load.columns import chosen_columns, spelled, to_known
from penstock.kinds.table_load.deletes import check_deletes, fetch_rows
from penstock.kinds.table_load.full_refresh import write_table, written
from penstock.kinds.table_load.job import ROWS, Job
from penstock.kinds.table_load.landing import FIRST, Chunks, Journal, Landing, plan_chunks, total
from penstock.kinds.table_load.merging import merge_rows
from penstock.kinds.table_load.observe import find_since
from penstock.kinds.table_load.progress import LoadProgress
from penstock.kinds.table_load.spark_source import to_text
from penstock.kinds.table_load.windows import find_latest_now, is_before, is_time, later
from penstock.lake.statements import quote
from penstock.model.loads import NullCursor
from penstock.model.plan import Action
from penstock.model.results import LoadResult
from penstock.transforms.conform import conform_field


def load_by_cursor(job: Job, action: Action) -> LoadResult:
    """A first load or a reload of everything, or the rows since the watermark."""
    if action is Action.REBUILD:
        return _load_first(job)
    payload = job.work.state.payload
    token = payload.token if payload and not job.work.reads_all else None
    with job.source.open(_cursor(job), token) as moment:
        return _load_increment(job.evolve(), moment)


def _cursor(job: Job) -> str:
    return spelled(job.look.columns, job.work.options.cursor or "")


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Rows of a window."""

    rows: DataFrame
    landed: Landed
    skipped: int = 0


def _load_increment(job: Job, moment: Moment) -> LoadResult:
    options, known = job.work.options, job.work.state.payload
    if known is None:
        raise ValueError(f"{job.name} has no progress")
    if job.work.reads_all:  # how far another table was read says nothing about this one
        known = replace(known, watermark=None, is_bounded=False, token=None, greatest=None)
    since = find_since(options, known.watermark, is_bounded=known.is_bounded)
    if since is None and known.watermark is not None:
        raise _unbounded(job)
    bound = _usable_bound(job, moment, known)
    until = None if options.keys else bound
    if bound is not None and known.watermark is not None and _is_held(job, bound, known.watermark):
        until = None if options.keys else known.watermark
    window = Window(_cursor(job), since, until, options.null_cursor is not NullCursor.SKIP)
    read = _read_window(job, moment, window)
    greatest = later(known.greatest, read.landed.greatest_cursor, _cursor_type(job))
    moved = _move_on(job, moment, known, bound, read)
    payload = job.progress(moment, **moved, greatest=greatest, checked_at=known.checked_at)
    payload = replace(payload, mark=_mark_next(job, moment, payload, until))
    if not options.keys:
        is_read_again = job.work.reads_all or since != known.watermark
        result = _append(job, read.rows, payload, _stored_since(job, since) if is_read_again else None)
    else:
        result = _merge(job, moment, read, payload, is_changed=_is_changed(job, known, since, read.landed))
    return replace(result, skipped=read.skipped)


def _mark_next(job: Job, moment: Moment, payload: LoadProgress, until: str | None) -> str | None:
    """What the source says of the rows that this load has read and the next one begins with: the next plan asks for it."""
    since = find_since(job.work.options, payload.watermark, is_bounded=payload.is_bounded)
    if not payload.is_bounded or (not job.keys and since == payload.watermark):
        return None
    window = Window(_cursor(job), since, until, job.work.options.null_cursor is not NullCursor.SKIP)
    return moment.mark(replace(job.wanted, window=window))


def _usable_bound(job: Job, moment: Moment, known: LoadProgress) -> str | None:
    """The source's bound. Appended rows may lie beyond one that the source has only now: it counts once it has passed them."""
    bound = moment.bound.value if moment.bound else None
    if bound is None or known.is_bounded or job.keys or known.watermark is None:
        return bound
    return bound if _cursor_type(job) != "string" and is_before(known.watermark, bound) else None


def _is_held(job: Job, bound: str, since: str) -> bool:
    """Whether something holds the bound back so far that there is nothing to read; of texts, only the source knows the order."""
    return _cursor_type(job) != "string" and is_before(bound, since)


def _move_on(job: Job, moment: Moment, known: LoadProgress, bound: str | None, read: _Read) -> dict[str, object]:
    """How far the source is read after this window."""
    if bound is not None:
        watermark = later(known.watermark, bound, _cursor_type(job))
        return {"watermark": watermark, "is_bounded": True, "token": moment.bound.token if moment.bound else None}
    greatest = _leave_out_future(job, read.rows, read.landed.greatest_cursor, moment.taken_at)
    if greatest is None:
        return {"watermark": known.watermark, "is_bounded": known.is_bounded, "token": known.token}
    watermark = later(known.watermark, greatest, _cursor_type(job))
    return {"watermark": watermark, "is_bounded": False, "token": None}


def _is_changed(job: Job, known: LoadProgress, since: str | None, landed: Landed) -> bool:
    """Whether every landed row differs from the table's: its cursor is greater than any that was read before."""
    if known.greatest is None or since is None or landed.null_cursors or _cursor_type(job) == "string":
        return False
    is_stored = any(column.name.lower() == _cursor(job).lower() for column in job.columns)
    return is_stored and is_before(known.greatest, since)


def _leave_out_future(job: Job, rows: DataFrame, greatest: str | None, now: str) -> str | None:
    """The greatest cursor that does not lie in the future: from a row of the year 9999 on, everything else would be late."""
    limit = find_latest_now(greatest, now, job.work.options.zone) if greatest is not None else None
    if limit is None:
        return greatest
    name = spelled(job.columns, job.work.options.cursor or "")
    cursor, type_ = F.col(quote(name)), rows.schema[name].dataType
    past = rows.where(cursor <= F.lit(limit).cast(type_))
    return past.agg(to_text(F.max(cursor), type_)).collect()[0][0] or limit


def _cursor_type(job: Job) -> str:
    """The type of the cursor in the source."""
    name = _cursor(job)
    return next((column.type or "" for column in job.look.columns if column.name == name), "")


def _merge(job: Job, moment: Moment, read: _Read, payload: LoadProgress, *, is_changed: bool) -> LoadResult:
    if not job.work.checks_deletes:
        if not read.landed.rows:
            return job.restate(payload)
        return merge_rows(job, read.rows, None, payload, is_changed=is_changed)
    found = check_deletes(job, moment, read.rows)
    payload = replace(payload, checked_at=moment.taken_at)
    if not read.landed.rows and found.gone is None and found.returned is None:
        return job.restate(payload)
    rows = read.rows.unionByName(found.returned) if found.returned is not None else read.rows
    return merge_rows(job, rows, found.gone, payload, is_changed=is_changed)


def _read_window(job: Job, moment: Moment, window: Window) -> _Read:
    """Land the rows of a window, and check them."""
    wanted = replace(job.wanted, window=window)
    landed = job.landing.land(moment, wanted, "window")
    _check_nulls(job, landed.null_cursors)
    rows = job.read(landed.files)
    job.check(rows, landed.rows, landed.files)
    return _Read(rows, landed, _count_skipped(job, moment))


def _check_nulls(job: Job, nulls: int) -> None:
    if nulls and job.work.options.null_cursor is NullCursor.FAIL:
        raise VerificationError(
            f"{job.name}: the cursor {job.work.options.cursor} is NULL in {nulls} rows of {job.work.shown}; nothing was written",
            hint="set null_cursor: reload reads such rows in every load, skip leaves them out",
        )


def _count_skipped(job: Job, moment: Moment) -> int:
    """How many rows are left out because their cursor is NULL."""
    if job.work.options.null_cursor is not NullCursor.SKIP:
        return 0
    cursor = _cursor(job)
    narrow = Wanted((cursor,), job.work.options.where)
    return moment.count(narrow) - moment.count(replace(narrow, window=Window(cursor)))


def _append(job: Job, rows: DataFrame, payload: LoadProgress, stored: DataFrame | None) -> LoadResult:
    """Append rows exactly once; those that may be read again are compared with `stored` rows of the table, with multiplicity."""
    screen = job.screen()
    kept = screen.drop(rows)
    if stored is not None:
        kept = _without_stored(job, kept, stored)
    if kept.isEmpty() and not screen:
        return job.restate(payload)
    fault_point("load.before_attempt", str(job.name))
    begun = job.begin_append(payload)
    suppressed = job.keep_aside(rows, screen, begun.number, is_all=False)
    fault_point("load.before_commit", str(job.name))
    commit = job.lake.append(job.storable(kept), job.name, begun.number)
    fault_point("load.after_commit", str(job.name))
    return LoadResult(commit.version, written(commit), suppressed=suppressed)


def _without_stored(job: Job, rows: DataFrame, stored: DataFrame) -> DataFrame:
    """Rows without those that the table has; a column that the source no longer has is NULL in all of them, and says nothing."""
    present = {column.key for column in job.present}
    compared = [quote(name) for name in rows.columns if name.lower() in present]
    types = {field.name: field.dataType for field in rows.schema.fields}
    new = rows.select(*compared).exceptAll(stored.select(*compared))
    return new.select(
        *(F.col(quote(n)) if n.lower() in present else F.lit(None).cast(types[n]).alias(n) for n in rows.columns)
    )


def _stored_since(job: Job, since: str | None) -> DataFrame:
    """The table's rows from this value of the cursor on; all of them without one."""
    stored = job.lake.read(job.name)
    columns = [conform_field(stored.schema.fields, column.name, column.type) for column in job.columns]
    cursor = F.col(quote(spelled(job.columns, job.work.options.cursor or "")))
    type_ = next(
        column.type for column in job.columns if column.name.lower() == (job.work.options.cursor or "").lower()
    )
    is_later = (cursor >= F.lit(since).cast(type_)) if since is not None else F.lit(True)
    return stored.where(is_later | cursor.isNull()).select(*columns)


def _unbounded(job: Job) -> SourceError:
    return SourceError(
        f"{job.name}: the cursor {job.work.options.cursor} is not a time, and rows may be committed late",
        hint='if values are only ever committed in order, set lookback="0 seconds"; otherwise use strategy snapshot',
    )


def _load_first(job: Job) -> LoadResult:
    """All rows: in chunks that survive a kill where rows have keys, else in one piece."""
    landing = Landing(job.lake.files, job.name, FIRST if job.keys else job.build_request_id)
    with job.source.open(_cursor(job)) as moment:
        journal, done = _find_begun(job, landing)
        window = Window(_cursor(job), nulls=job.work.options.null_cursor is not NullCursor.SKIP)
        if not job.keys and moment.bound is not None:
            window = replace(window, until=moment.bound.value)
        wanted = replace(job.wanted, window=window)
        if journal is None:
            chunks = plan_chunks(job.source, moment, wanted, job.look, job.work.options)
            journal = _begin(job, landing, moment, chunks)
        column = spelled(job.look.columns, job.work.options.keys[0]) if len(journal.ranges) > 1 else None
        chunks = Chunks(journal.ranges, column, job.work.options.parallel, is_kept=bool(job.keys))
        landed = landing.land_chunks(moment, wanted, chunks, done)
        fault_point("load.after_land", str(job.name))
        _check_nulls(job, sum(each.null_cursors for each in landed.values()))
        everything = total(tuple(landed.values()))
        rows = job.read(everything.files)
        sure = [landed[number] for number in done] if done else list(landed.values())
        greatest = reduce(later, (each.greatest_cursor for each in sure), None)
        watermark = journal.watermark or _leave_out_future(job, rows, greatest, journal.taken_at)
        if (
            watermark is not None
            and journal.watermark is None
            and not is_time(watermark)
            and job.work.options.lookback != 0
        ):
            raise _unbounded(job)
        if done:
            is_bounded = journal.watermark is not None
            since = find_since(job.work.options, watermark, is_bounded=is_bounded)
            rows, expected = _catch_up(job, moment, rows, since)
        else:
            expected = moment.count(wanted)
        job.check(rows, expected, () if done else everything.files)
        job.check_not_empty(expected)
        payload = job.progress_at(
            journal.taken_at,
            journal.stamp,
            watermark=watermark,
            is_bounded=journal.watermark is not None,
            token=journal.token,
            greatest=None if done else reduce(later, (each.greatest_cursor for each in landed.values()), None),
            checked_at=moment.taken_at,
        )
        payload = replace(payload, mark=_mark_next(job, moment, payload, window.until))
        result = write_table(job, _with_own(job, rows), job.screen(), payload)
        landing.clear()
        return replace(result, skipped=_count_skipped(job, moment))


def _with_own(job: Job, rows: DataFrame) -> DataFrame:
    """The rows with the columns that a load adds, NULL at first."""
    known = set(rows.columns)
    own = {c.name: F.lit(None).cast(c.type) for c in job.schema.columns if c.name not in known}
    return rows.withColumns(own) if own else rows


def _find_begun(job: Job, landing: Landing) -> tuple[Journal | None, dict[int, Landed]]:
    """A first load of the same columns and settings that was killed, and its chunks; nothing when there is none."""
    journal = landing.read_journal() if job.keys else None
    now = (job.work.begun_from, job.work.settings, _columns(job))
    if journal is None or (journal.source, journal.settings, [list(c) for c in journal.columns]) != now:
        return None, {}
    done = landing.find_done()
    return (journal, done) if done else (None, {})


def _columns(job: Job) -> list[list[str]]:
    """The columns that are read, and last which table they are of: chunks of one that was dropped since are not used."""
    columns = [[c.name, c.native, c.type] for c in to_known(chosen_columns(job.look, job.work.options))]
    return [*columns, ["", "", job.look.identity or ""]]


def _begin(job: Job, landing: Landing, moment: Moment, chunks: Chunks) -> Journal:
    bound = moment.bound
    watermark, token = (bound.value, bound.token) if bound else (None, None)
    work = job.work
    journal = Journal(
        work.begun_from, work.settings, _columns(job), chunks.ranges, moment.taken_at, watermark, token, moment.stamp
    )
    if job.keys:
        landing.begin(journal)
    return journal


def _catch_up(job: Job, moment: Moment, rows: DataFrame, since: str | None) -> tuple[DataFrame, int]:
    """Rows of chunks that were landed at an earlier moment, brought to this one: changed, deleted and returned rows.

    Gives the rows, and how many the source counts.
    """
    options, keys = job.work.options, list(job.keys)
    read = _read_window(job, moment, Window(_cursor(job), since, None, options.null_cursor is not NullCursor.SKIP))
    cursor = None if options.null_cursor is not NullCursor.SKIP else Window(_cursor(job))
    wanted = replace(job.wanted_keys, window=cursor)
    landed = job.landing.land(moment, wanted, "keys")
    fault_point("load.after_keys", str(job.name))
    current = job.read(landed.files).select(*map(quote, keys))
    # A row that moved between two chunks can be in both: the window, or the fetch by key, has it as it is now.
    changed = read.rows.select(*map(quote, keys))
    groups = rows.groupBy(*map(quote, keys)).agg(F.count(F.lit(1)).alias(ROWS))
    doubled = groups.where(F.col(ROWS) > 1).drop(ROWS)
    kept = rows.join(changed, keys, "left_anti").join(doubled, keys, "left_anti").join(current, keys, "left_semi")
    found = kept.select(*rows.columns).unionByName(read.rows)
    lacking = current.join(found.select(*map(quote, keys)), keys, "left_anti")
    returned = fetch_rows(job, moment, lacking)
    return (found.unionByName(returned) if returned is not None else found), landed.rows

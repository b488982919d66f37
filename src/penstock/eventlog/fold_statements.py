"""The SQL of a log's tables: reading events, properties of the log, and one fold statement per state table."""

from __future__ import annotations

SELECT_EVENTS = (
    "SELECT e.position, e.event_id, e.timestamp, e.build_request_id, e.event_type, e.body FROM penstock_event e"
)

SELECT_META = "SELECT value FROM penstock_meta WHERE name = ?"
SELECT_HEAD = "SELECT name, value FROM penstock_meta WHERE name IN ('last_position', 'schema_version')"
SET_META = (
    "INSERT INTO penstock_meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)

INSERT_EVENT_PARTITION = "INSERT INTO penstock_event_partition (partition_ref, position) VALUES (?, ?)"

FOLD_BUILD = """
INSERT INTO penstock_build (build_request_id, status, requested_partitions, message, cancel_reason,
    created_at, updated_at, first_position, last_position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (build_request_id) DO UPDATE SET
    status = CASE WHEN excluded.status = 0 THEN penstock_build.status ELSE excluded.status END,
    message = CASE WHEN excluded.status = 0 THEN penstock_build.message ELSE excluded.message END,
    requested_partitions = CASE WHEN excluded.requested_partitions = '[]'
        THEN penstock_build.requested_partitions ELSE excluded.requested_partitions END,
    cancel_reason = COALESCE(excluded.cancel_reason, penstock_build.cancel_reason),
    updated_at = excluded.updated_at,
    last_position = excluded.last_position"""

FOLD_PARTITION = """
INSERT INTO penstock_partition (partition_ref, status, build_request_id, job_run_id, message, updated_at, last_position,
    available_build_request_id, available_at, invalidated_reason)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (partition_ref) DO UPDATE SET
    status = CASE WHEN excluded.status = 0 THEN penstock_partition.status ELSE excluded.status END,
    build_request_id = CASE WHEN excluded.status = 0
        THEN penstock_partition.build_request_id ELSE excluded.build_request_id END,
    job_run_id = CASE WHEN excluded.status = 0 THEN penstock_partition.job_run_id ELSE excluded.job_run_id END,
    message = CASE WHEN excluded.status = 0 THEN penstock_partition.message ELSE excluded.message END,
    updated_at = excluded.updated_at,
    last_position = excluded.last_position,
    available_build_request_id = CASE WHEN excluded.status IN (0, 4)
        THEN excluded.available_build_request_id ELSE penstock_partition.available_build_request_id END,
    available_at = CASE WHEN excluded.status IN (0, 4)
        THEN excluded.available_at ELSE penstock_partition.available_at END,
    invalidated_reason = CASE WHEN excluded.status IN (0, 4)
        THEN excluded.invalidated_reason ELSE penstock_partition.invalidated_reason END"""

FOLD_BUILD_PARTITION = """
INSERT INTO penstock_build_partition (partition_ref, build_request_id, status, job_run_id, delegated_to,
    first_position, last_position, claim_position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (partition_ref, build_request_id) DO UPDATE SET
    status = CASE WHEN excluded.status = 0 THEN penstock_build_partition.status ELSE excluded.status END,
    job_run_id = COALESCE(excluded.job_run_id, penstock_build_partition.job_run_id),
    delegated_to = COALESCE(excluded.delegated_to, penstock_build_partition.delegated_to),
    last_position = excluded.last_position,
    claim_position = COALESCE(penstock_build_partition.claim_position, excluded.claim_position)"""

FOLD_JOB = """
INSERT INTO penstock_job (job_run_id, build_request_id, job_label, target_partitions, status, message, cancel_reason,
    created_at, updated_at, first_position, last_position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job_run_id) DO UPDATE SET
    build_request_id = CASE WHEN excluded.status = 0
        THEN penstock_job.build_request_id ELSE excluded.build_request_id END,
    job_label = CASE WHEN excluded.status = 0 THEN penstock_job.job_label ELSE excluded.job_label END,
    target_partitions = CASE WHEN excluded.status = 0
        THEN penstock_job.target_partitions ELSE excluded.target_partitions END,
    status = CASE WHEN excluded.status = 0 THEN penstock_job.status ELSE excluded.status END,
    message = CASE WHEN excluded.status = 0 THEN penstock_job.message ELSE excluded.message END,
    cancel_reason = COALESCE(excluded.cancel_reason, penstock_job.cancel_reason),
    updated_at = excluded.updated_at,
    last_position = excluded.last_position"""

CREATE MATERIALIZED VIEW first_totals AS SELECT count(*) AS orders FROM staging.orders

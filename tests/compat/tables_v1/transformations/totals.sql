CREATE TEMPORARY VIEW order_amounts AS SELECT customer, amount FROM staging.orders;

CREATE MATERIALIZED VIEW totals COMMENT 'per customer' CLUSTER BY (customer)
AS SELECT customer, sum(amount) AS total FROM order_amounts GROUP BY customer

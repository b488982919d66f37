from shop_shapes import with_label

from penstock import pipelines as dp


@dp.temporary_view
def labelled():
    return with_label(dp.read("staging.orders"))


@dp.materialized_view(partition_cols=["customer"])
@dp.expect_or_drop("big", "is_big")
@dp.expect("known", "customer <> 'c'")
def big_orders():
    return dp.read("labelled")


@dp.materialized_view(depends_on=["big_orders"])
def big_count():
    return getattr(dp.spark, "table")("big_orders").groupBy("customer").count()

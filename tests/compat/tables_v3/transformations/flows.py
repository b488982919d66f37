from pathlib import Path

from penstock import pipelines as dp

dp.create_streaming_table("customers", comment="customers and their history")
dp.create_auto_cdc_flow(
    target="customers",
    source=dp.change_files(
        "feeds/customers", envelope="events", schema="operation string, data struct<id: int, city: string>, ts int"
    ),
    keys=["id"],
    sequence_by="_change.ts",
    stored_as_scd_type=2,
    quarantine=True,
)

dp.create_streaming_table("accounts")
dp.create_auto_cdc_flow(
    target="accounts",
    source=dp.change_files("feeds/accounts", envelope="debezium"),
    keys=["id"],
    sequence_by="_change.ts_ms",
)

dp.create_streaming_table("contacts")
for country in ("de", "it"):
    dp.create_auto_cdc_flow(
        name=f"contacts_{country}",
        target="contacts",
        source=dp.change_files(f"feeds/contacts_{country}", format="csv", schema="id int, mail string, ts int"),
        keys=["id"],
        sequence_by="ts",
        except_column_list=["ts"],
    )

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    target="people",
    source="staging.people_feed",
    keys=["id"],
    sequence_by="ts",
    apply_as_deletes="op = 'DELETE'",
    except_column_list=["op", "ts"],
    stored_as_scd_type=2,
    track_history_column_list=["city"],
)

dp.create_streaming_table("stock")
dp.create_auto_cdc_from_snapshot_flow(target="stock", source="staging.stock_now", keys=["sku"])


def next_prices(version):
    days = sorted(file.stem for file in (Path(__file__).parents[1] / "snapshots").glob("*.json"))
    later = [day for day in days if version is None or day > version]
    rows = f"{Path(__file__).parents[1]}/snapshots/{{}}.json"
    return (dp.spark.read.schema("sku string, price int").json(rows.format(later[0])), later[0]) if later else None


dp.create_streaming_table("prices")
dp.create_auto_cdc_from_snapshot_flow(target="prices", source=next_prices, keys=["sku"], stored_as_scd_type=2)


@dp.materialized_view(table_properties={"delta.enableChangeDataFeed": "true"})
def latest():
    return dp.spark.sql("SELECT id, city FROM customers WHERE __END_AT IS NULL")


dp.create_streaming_table("latest_history")
dp.create_auto_cdc_flow(
    target="latest_history", source="latest", keys=["id"], sequence_by="_commit_version", stored_as_scd_type=2
)

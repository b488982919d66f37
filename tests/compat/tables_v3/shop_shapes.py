LEAST = 10


def with_label(rows):
    return rows.selectExpr("*", f"amount > {LEAST} AS is_big")

"""A file has one address, however it is written."""

from __future__ import annotations

from penstock.storage.addresses import to_address


def test_one_file_has_one_address() -> None:
    local = {
        to_address(uri) for uri in ("/a/b/c.json", "file:///a/b/c.json", "/a//b/./c.json", "file:/a/x/../b/c.json")
    }
    assert local == {"a/b/c.json"}
    assert to_address("s3://bucket/a//b") == to_address("s3a://bucket/a//b") == "bucket/a//b"

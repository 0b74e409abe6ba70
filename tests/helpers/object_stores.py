"""Object stores on the loopback, as cloud providers have them."""

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import fsspec
import pytest

BUCKET = "corpus"


@contextlib.contextmanager
def s3_server(folder) -> Iterator[dict[str, str]]:
    """Runs moto's S3 server; yields the environment variables that lead to it."""
    port = _free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    address = f"http://127.0.0.1:{port}"
    with _running(command, folder, address):
        yield {
            "AWS_ENDPOINT_URL": address,
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextlib.contextmanager
def gcs_server(folder) -> Iterator[dict[str, str]]:
    """Runs an emulator of Cloud Storage; yields the variables that lead to it."""
    port = _free_port()
    code = "from gcp_storage_emulator.__main__ import main; main()"
    command = [sys.executable, "-c", code, "start", "--host=127.0.0.1"]
    command += [f"--port={port}", "--in-memory", f"--default-bucket={BUCKET}"]
    address = f"http://127.0.0.1:{port}"
    with _running(command, folder, address):
        yield {"STORAGE_EMULATOR_HOST": address, "GOOGLE_CLOUD_PROJECT": "nobody"}


@contextlib.contextmanager
def environment(variables) -> Iterator[None]:
    """Sets environment variables, and forgets connections made without them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        for scheme in ("s3", "gs"):
            fsspec.get_filesystem_class(scheme).clear_instance_cache()
        yield


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def _running(command, folder, address) -> Iterator[None]:
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        for _ in range(300):
            if process.poll() is not None:
                raise AssertionError((folder / "server.log").read_text())
            try:
                urllib.request.urlopen(address, timeout=5)
                break
            except urllib.error.HTTPError:
                break  # it answers
            except OSError:
                time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()

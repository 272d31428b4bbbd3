"""The documented lines for nginx, in Debian's nginx: the page, its requests, keys and large bodies."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from capse.service.limits import MAX_BODY
from capse.service.store import SCOPES, Store

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
CONFIGURATION = """
daemon off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {lines}
    }}
}}
"""


def documented_lines(port):
    """The block of the how-to page, for a service on this port."""
    block = re.search(r"```text\n(location / \{.*?\n\})\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    assert "http://127.0.0.1:8000;" in block
    return block.replace("127.0.0.1:8000", f"127.0.0.1:{port}")


@pytest.fixture
def behind_nginx(server, graph_run, tmp_path):
    """The proxy's address and a key."""
    if NGINX is None:
        pytest.skip("no nginx is installed")
    with Store.open(str(tmp_path / "capse.db")) as store:
        key = store.add_key("page", SCOPES)
    service = server(graph_run, "--require-keys", "--db", tmp_path / "capse.db")
    folder = tmp_path / "nginx"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as held:  # nginx takes the socket over, so that nobody takes its port
        port = held.getsockname()[1]
        (folder / "nginx.conf").write_text(
            CONFIGURATION.format(folder=folder, port=port, lines=documented_lines(service.port))
            + ("user root;\n" if os.geteuid() == 0 else "")
        )
        proxy = subprocess.Popen(
            [NGINX, "-c", folder / "nginx.conf", "-e", folder / "error.log"],
            env={**os.environ, "NGINX": f"{held.fileno()};"},
            pass_fds=[held.fileno()],
        )
    address = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            if httpx.get(f"{address}/health").status_code == 200:
                break
        except httpx.ConnectError:
            time.sleep(0.05)
    yield address, key
    proxy.terminate()
    assert proxy.wait(30) == 0, (folder / "error.log").read_text()


def test_the_page_and_its_requests_pass(behind_nginx):
    address, key = behind_nginx
    assert "<title>capse</title>" in httpx.get(address).text
    headers = {"Authorization": f"Bearer {key}", "Origin": address}  # as the browser of somebody who reads the page
    answer = httpx.post(f"{address}/v1/predict", json={"relation": "knows", "head": "e00"}, headers=headers)
    assert answer.status_code == 200, answer.text
    assert httpx.post(f"{address}/v1/predict", json={}, headers={"Origin": address}).status_code == 401
    assert httpx.head(f"{address}/health").status_code == 200
    asked = httpx.get(f"{address}/v1/entities/a%2Fb%0Ac", headers=headers)
    assert asked.json()["detail"] == "unknown entity 'a/b\\nc'"


def test_what_the_service_takes_passes_too(behind_nginx):
    address, key = behind_nginx
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = b'{"relation": "knows", "head": "e00"' + b" " * (MAX_BODY - 100) + b"}"
    assert httpx.post(f"{address}/v1/predict", content=body, headers=headers, timeout=60).status_code == 200

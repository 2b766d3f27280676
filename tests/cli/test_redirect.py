"""Twin of sidecar/cli/redirect.py: the rules as text, and at work in a network of their own."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result
from support import SidecarProcess, clean_environment

from sidecar.cli.redirect import port_of, redirect_command, ruleset
from sidecar.config import Settings
from sidecar.errors import ConfigError

ENVIRONMENT = {"SIDECAR__UPSTREAM__URL": "http://model.test:8000", "SIDECAR__LISTEN__HOSTS": "[model.test]"}
SIDECAR, APPLICATION = 61532, 10001
HOST, POD, NET = "192.0.2.1", "192.0.2.2", f"pod-{os.getpid()}"
HOST6, POD6 = "fd00:c0:2::1", "fd00:c0:2::2"
CLONE_NEWNET = 0x40000000
RULE = """family: jailbreak
rules:
  - {id: T-1, title: A word, score: 0.9, languages: [en], patterns: [apple], match: [apple], no_match: [pear]}
"""
# Everything is imported before the user changes: the new one need not be able to read the interpreter's folder.
CLIENT = """
import encodings.idna, http.client, json, os, sys
address, port, host, word, uid = sys.argv[1:]
os.setgroups([])
os.setuid(int(uid))
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": word}]})
connection = http.client.HTTPConnection(address, int(port), timeout=60)
try:
    headers = {"Host": host, "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", body, headers)
    answer = connection.getresponse()
    print(json.dumps([answer.status, answer.read().decode(), answer.getheader("x-sidecar-action")]))
except OSError as error:
    print(json.dumps([type(error).__name__, "", None]))
"""

RAW = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60) as connection:
    connection.sendall(bytes.fromhex(sys.argv[3]))
    print(connection.recv(100).decode("latin-1"))
"""
NOT_HTTP_1 = {
    "TLS": "16030100" + "2f010000" + "2b0303" + "00" * 40,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".hex() + "00" * 9,
}


def settings(**upstream: Any) -> Settings:
    """Settings of a pod with a redirection."""
    listen = {"hosts": ["model.models.svc"]}
    return Settings.model_validate({"listen": listen, "upstream": {"url": "http://model.models.svc:8000", **upstream}})


def test_only_plain_http_that_leaves_the_pod_can_be_redirected() -> None:
    """TLS, the pod's own loopback, and a door that would take other hosts' requests are refused, all at once."""
    assert port_of(settings()) == 8000
    assert port_of(settings(url="http://model.models.svc")) == 80
    with pytest.raises(ConfigError) as raised:
        port_of(settings(url="https://127.0.0.1:8443"))
    assert len(raised.value.problems) == 3


def test_an_upstream_without_a_host_is_one_problem() -> None:
    """By default the upstream is the echo: it is no host that `listen.hosts` could name."""
    with pytest.raises(ConfigError) as caught:
        port_of(Settings())
    assert len(caught.value.problems) == 1
    assert "None" not in str(caught.value)


def test_networks_are_matched_by_their_version_and_told_once() -> None:
    """One line for IPv4, one for IPv6, overlaps joined; without networks one line for everywhere."""
    networks = [ip_network(text) for text in ("10.0.0.0/8", "10.1.0.0/16", "fd00::/8")]
    rules = ruleset(80, 8080, 7, networks)
    assert rules.count("redirect to :8080") == 2
    assert "ip daddr { 10.0.0.0/8 } tcp dport 80" in rules
    assert "ip6 daddr { fd00::/8 } tcp dport 80" in rules
    assert "\t\ttcp dport 80 redirect to :8080\n" in ruleset(80, 8080, 7)


def run(*arguments: str, **environment: str) -> Result:
    """`sidecar redirect` with the settings of a pod."""
    return CliRunner().invoke(redirect_command, arguments, env=ENVIRONMENT | environment)


def test_the_rules_are_shown_without_being_applied() -> None:
    """What `--show` writes is what would be applied; a network that is none is an error."""
    shown = run("--show", "--to", "10.96.0.0/12", "--uid", "61532")
    assert (shown.exit_code, shown.stdout) == (0, ruleset(8000, 8080, 61532, [ip_network("10.96.0.0/12")]))
    assert run("--show", "--to", "everywhere").exit_code == 2


@pytest.mark.parametrize(
    ("nft", "message"),
    [("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n", "NET_ADMIN"), (None, "nft is not installed")],
)
def test_a_step_that_cannot_apply_the_rules_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], nft: str | None, message: str
) -> None:
    """Exit code 2 with the reason: a pod does not start half redirected."""
    if nft:
        (tmp_path / "nft").write_text(nft, "utf-8")
        (tmp_path / "nft").chmod(0o755)
    ended = run(PATH=str(tmp_path))
    assert (ended.exit_code, message in ended.output + capfd.readouterr().err) == (2, True)


class Model(BaseHTTPRequestHandler):
    """An upstream that remembers what it was asked."""

    seen: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Any question."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(request["messages"][0]["content"])
        answer = b'{"choices": []}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Silence."""


def redirect(port: int) -> None:
    """The init step, as root in the pod's network."""
    inside = ["ip", "netns", "exec", NET, sys.executable, "-m", "sidecar", "redirect", "--uid", str(SIDECAR)]
    environment = clean_environment() | ENVIRONMENT | {"SIDECAR__UPSTREAM__URL": f"http://model.test:{port}"}
    subprocess.run(inside, check=True, env=environment, timeout=100)


def must(*command: str) -> None:
    """Run it; a failure is one of the test's own."""
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def missing() -> str | None:
    """Why the test cannot run here."""
    if sys.platform != "linux" or os.getuid() != 0:
        return "needs root: it makes a network namespace and rules in it"
    absent = [name for name in ("ip", "nft", "setpriv") if shutil.which(name) is None]
    if absent:
        return f"needs {', '.join(absent)}: .ci/run installs iproute2 and nftables"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, timeout=60, check=False)
    return None if tried.returncode == 0 else "needs CAP_SYS_ADMIN: network namespaces are not allowed here"


class Pod:
    """A network namespace with a sidecar in it, redirected; the model is outside."""

    def __init__(self, sidecar: SidecarProcess, port: int, elsewhere: int) -> None:
        self.sidecar, self.port, self.elsewhere = sidecar, port, elsewhere

    def ask(self, word: str, *, host: str = "model.test", port: int = 0, to: str = HOST, uid: int = APPLICATION) -> Any:
        """The status, the body and the sidecar's header that a process of the pod gets."""
        return json.loads(self.run(CLIENT, to, str(port or self.port), host, word, str(uid)))

    def run(self, script: str, *arguments: str) -> str:
        """What a script writes that runs in the pod."""
        command = ["ip", "netns", "exec", NET, sys.executable, "-I", "-c", script, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def network_of_our_own() -> Iterator[None]:
    """A new namespace of the network for this thread and what it starts: the machine's own is not touched."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            make_network()
            yield
        finally:
            with suppress(subprocess.CalledProcessError):
                must("ip", "netns", "del", NET)
            assert libc.setns(before.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


def make_network() -> None:
    """A pod's network: loopback, and a link to here."""
    must("ip", "link", "set", "lo", "up")
    inside = ("ip", "-n", NET)
    must("ip", "netns", "add", NET)
    must(*inside, "link", "set", "lo", "up")
    must("ip", "link", "add", "psk0", "type", "veth", "peer", "name", "psk1", "netns", NET)
    must("ip", "addr", "add", f"{HOST}/30", "dev", "psk0")
    must(*inside, "addr", "add", f"{POD}/30", "dev", "psk1")
    must("ip", "link", "set", "psk0", "up")
    must(*inside, "link", "set", "psk1", "up")
    with suppress(subprocess.CalledProcessError):
        must("ip", "addr", "add", f"{HOST6}/64", "dev", "psk0", "nodad")
        must(*inside, "addr", "add", f"{POD6}/64", "dev", "psk1", "nodad")


@pytest.fixture(scope="module")
def pod() -> Iterator[Pod]:
    """The pod as the manifests make it: first the redirection, then the sidecar as its own user."""
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are for root alone
    (folder / "rule.yaml").write_text(RULE, "utf-8")
    shutil.chown(folder, SIDECAR, SIDECAR)
    with network_of_our_own(), models() as ports:
        redirect(ports[0])
        sidecar = in_pod(folder, ports[0])
        try:
            yield Pod(sidecar.start(), *ports)
        finally:
            sidecar.stop()
            shutil.rmtree(folder)


@contextmanager
def models() -> Iterator[list[int]]:
    """Two models outside the pod: the one on whose port traffic is redirected, and another."""
    servers = [ThreadingHTTPServer((HOST, 0), Model) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        for server in servers:
            pool.submit(server.serve_forever)
        yield [server.server_port for server in servers]
        for server in servers:
            server.shutdown()
            server.server_close()


def in_pod(folder: Path, port: int) -> SidecarProcess:
    """The sidecar, in the pod's network as its own user."""
    values = {
        "listen": {"host": "127.0.0.1", "port": 8080, "hosts": ["model.test"]},
        "admin": {"host": POD, "port": 8081},
        "upstream": {"url": f"http://{HOST}:{port}"},
        "layers": {"semantic": {"enabled": False}},
        "policies": [str(folder / "rule.yaml")],
    }
    # It need not be able to read where this checkout lies: that is not what is tested.
    reading = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    user = ("setpriv", f"--reuid={SIDECAR}", f"--regid={SIDECAR}", "--clear-groups", *reading)
    launcher = ("ip", "netns", "exec", NET, *user)
    return SidecarProcess(folder, values, ("--no-first-key",), admin_port=8081, launcher=launcher, address=POD)


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    """A model that was asked nothing yet."""
    Model.seen.clear()


def test_an_application_that_knows_nothing_of_the_sidecar_is_scanned(pod: Pod) -> None:
    """What it sends to the model's own address is scanned: text is forwarded, an attack is not. So for root."""
    for uid in (APPLICATION, 0, 65532):
        assert pod.ask("pear", uid=uid)[::2] == [200, "allow"]
        status, body, action = pod.ask("apple", uid=uid)
        assert (status, action, json.loads(body)["error"]["code"]) == (400, "block", "content_filter")
    assert Model.seen == ["pear"] * 3


def test_who_runs_as_the_sidecars_user_goes_through(pod: Pod) -> None:
    """It must, for its own requests; so no application may have that user."""
    assert pod.ask("apple", uid=SIDECAR)[::2] == [200, None]
    assert Model.seen == ["apple"]


@pytest.mark.parametrize("host", ["other.test", "169.254.169.254", HOST, ""])
def test_what_is_for_another_host_on_that_port_is_refused_not_forwarded(pod: Pod, host: str) -> None:
    """No open proxy, and no prompt of one service given to another: 421, and nothing is forwarded."""
    status, body, _ = pod.ask("pear", host=host)
    assert (status, json.loads(body)["error"]["code"], Model.seen) == (421, "misdirected_request", [])


@pytest.mark.parametrize(("name", "message"), [("TLS", " 400 Bad Request\n"), ("HTTP/2", "This port speaks HTTP/1.1")])
def test_what_cannot_be_looked_into_goes_nowhere(pod: Pod, name: str, message: str) -> None:
    """TLS on the model's port gets an error in plain HTTP, HTTP/2 the end of its connection; nothing is forwarded."""
    assert message in pod.run(RAW, HOST, str(pod.port), NOT_HTTP_1[name])
    assert Model.seen == []


def test_other_ports_and_the_pods_own_loopback_are_left_alone(pod: Pod) -> None:
    """The word that would be blocked passes on another port; nobody listens on the pod's own."""
    assert pod.ask("apple", port=pod.elsewhere)[::2] == [200, None]
    assert pod.ask("pear", to="127.0.0.1")[0] == "ConnectionRefusedError"
    assert pod.ask("pear", to=POD)[0] == "ConnectionRefusedError"


def test_ipv6_is_no_way_round(pod: Pod) -> None:
    """It is redirected to the other loopback, where the sidecar does not listen by default."""
    if not Path("/proc/net/if_inet6").exists():
        pytest.skip("there is no IPv6 here, so there is no way round by it either")
    assert pod.ask("pear", to=HOST6)[0] == "ConnectionRefusedError"


def test_without_the_sidecar_nothing_goes_up(pod: Pod) -> None:
    """The last test of the module: the redirection outlives the sidecar, closed."""
    assert pod.sidecar.stop() == 0
    assert pod.ask("pear")[0] == "ConnectionRefusedError"
    assert Model.seen == []

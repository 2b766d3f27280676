"""Twin of sidecar/cli/kubernetes.py: the commands as they are typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest
import yaml
from kubernetes.test_objects import workload
from support import ONE_RULE, SidecarProcess, free_port, sidecar

from sidecar.kubernetes.objects import inject
from sidecar.kubernetes.options import Options


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`sidecar` with these arguments."""
    return sidecar(Path.cwd(), *arguments, stdin=stdin.encode())


def test_manifests_in_manifests_out_and_twice_is_once(tmp_path: Path) -> None:
    """Several documents from a file; the output goes in again and comes out as it went in."""
    documents = [{"kind": "Service"}, workload("CronJob")]
    (tmp_path / "m.yaml").write_text(yaml.safe_dump_all(documents), "utf-8")
    options = ("--image", "registry.example/prompt-sidecar@sha256:" + "0" * 64, "--secret", "llm", "--app-env")
    once = run("inject", "-f", str(tmp_path / "m.yaml"), *options)
    assert once.returncode == 0, once.stderr
    assert list(yaml.safe_load_all(once.stdout)) == [
        documents[0],
        inject(workload("CronJob"), Options(options[1], secret="llm", app_env=True)),
    ]
    assert once.stderr.splitlines()[0].startswith("skipped  Service/without a name")
    assert once.stderr.splitlines()[1].startswith("injected  CronJob/x")
    assert run("inject", stdin=once.stdout).stdout == once.stdout


def test_an_upgrade_keeps_the_key_and_removing_gives_the_manifest_back() -> None:
    """The new image is all that changes; an empty option removes what it named."""
    first = run("inject", "--secret", "llm", "--app-env", stdin=yaml.safe_dump(workload("Deployment"))).stdout
    upgraded = run("inject", "--image", "registry.example/prompt-sidecar:0.2.0", stdin=first).stdout
    assert upgraded == first.replace("prompt-sidecar:0.1.0", "registry.example/prompt-sidecar:0.2.0")
    assert "upstream-key" not in run("inject", "--secret", "", stdin=upgraded).stdout
    assert "OPENAI_BASE_URL" not in run("inject", "--no-app-env", stdin=upgraded).stdout
    removed = run("uninject", stdin=upgraded)
    assert (removed.returncode, removed.stderr.startswith("removed  Deployment/x")) == (0, True)
    assert "prompt-sidecar" not in removed.stdout


def test_what_is_left_to_do_is_on_standard_error() -> None:
    """The image that no registry has, and the key that the application keeps; the manifest is written all the same."""
    key = {"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": "openai", "key": "key"}}}
    shop = {"spec": {"containers": [{"name": "shop", "env": [key]}]}}
    done = run("inject", "--secret", "llm", "--app-env", stdin=yaml.safe_dump(workload("Job", shop)))
    words = " ".join(done.stderr.split())
    assert "pulls docker.io/library/prompt-sidecar:0.1.0; name yours with --image" in words
    assert "shop: OPENAI_API_KEY stays" in words
    assert (done.returncode, "name: openai" in done.stdout) == (0, True)


def test_an_applications_own_upstream_is_kept_and_named_on_standard_error() -> None:
    """Without --upstream it is where its requests went before; `uninject` restores the variable."""
    shop = {"name": "shop", "env": [{"name": "OPENAI_BASE_URL", "value": "https://llm.corp/v1"}]}
    done = run("inject", "--app-env", stdin=yaml.safe_dump(workload("Job", {"spec": {"containers": [shop]}})))
    assert (done.returncode, "value: https://llm.corp\n" in done.stdout) == (0, True), done.stderr
    assert "note Job/x: shop: OPENAI_BASE_URL was https://llm.corp/v1" in " ".join(done.stderr.split())
    removed = yaml.safe_load(run("uninject", stdin=done.stdout).stdout)
    assert removed["spec"]["template"]["spec"]["containers"] == [shop]


def test_an_object_that_fails_is_named_and_left_out_and_the_others_are_written() -> None:
    """Exit code 2; what follows in a pipe never gets the object without its sidecar."""
    on_node = workload("DaemonSet", {"spec": {"hostNetwork": True, "containers": [{"name": "a"}]}})
    done = run("inject", stdin=yaml.safe_dump_all([on_node, workload("Job")]))
    assert (done.returncode, "failed  DaemonSet/x: hostNetwork" in done.stderr) == (2, True)
    assert [document["kind"] for document in yaml.safe_load_all(done.stdout)] == ["Job"]


def test_a_kind_of_ones_own_is_injected_where_the_option_says() -> None:
    """Without the option it is skipped, and the line names it."""
    own = {"apiVersion": "x.io/v1", "kind": "Train", "metadata": {"name": "t"}, "spec": workload("Job")["spec"]}
    skipped = run("inject", stdin=yaml.safe_dump(own))
    assert "--path Train=spec.template" in skipped.stderr
    done = run("inject", "--path", "Train=spec.template", stdin=yaml.safe_dump(own))
    assert (done.returncode, "injected  Train/t" in done.stderr) == (0, True)
    assert run("inject", "--path", "Train", stdin=yaml.safe_dump(own)).returncode == 2


@pytest.mark.parametrize(
    ("stdin", "arguments", "message"),
    [
        ("a: [", (), "cannot be read"),
        ("a: 1\na: 2", (), "line 2, 'a' is set twice"),
        ("", (), "there are no manifests"),
        ("kind: Pod", (), "no pod with containers"),
        ("kind: Service", ("--upstream", "ftp://x"), "upstream-url"),
    ],
)
def test_what_cannot_be_done_is_one_message(stdin: str, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2, no manifest, no traceback."""
    ended = run("inject", *arguments, stdin=stdin)
    assert (ended.returncode, ended.stdout, message in ended.stderr, "Traceback" in ended.stderr) == (
        2,
        "",
        True,
        False,
    )


def test_a_webhook_without_a_certificate_does_not_start(tmp_path: Path) -> None:
    """Exit code 2 names the file."""
    ended = run("webhook", "--cert", str(tmp_path / "absent.crt"), "--key", str(tmp_path / "absent.key"))
    assert (ended.returncode, "absent.crt" in ended.stderr) == (2, True)


def test_quit_ends_the_sidecar_where_the_settings_allow_it(tmp_path: Path) -> None:
    """A drain with exit code 0; without the setting, and from a web page, it goes on serving."""
    port = free_port()
    allowed = {**ONE_RULE, "admin": {"port": port, "quit": True}}
    running = SidecarProcess(tmp_path, allowed, ("--no-first-key",), admin_port=port).start()
    assert running.process is not None
    page = httpx.post(f"{running.admin}/quit", headers={"Origin": "https://evil.example"}, timeout=60)
    assert (page.status_code, running.process.poll()) == (403, None)
    assert run("quit", "--url", running.admin).returncode == 0
    assert running.process.wait(60) == 0
    ended = run("quit", "--url", running.admin)
    assert (ended.returncode, "no sidecar answers" in ended.stderr) == (2, True)


def test_quit_is_off_unless_asked_for(rules_sidecar: SidecarProcess) -> None:
    """404, and the command says what to set."""
    ended = run("quit", "--url", rules_sidecar.admin)
    assert (ended.returncode, "admin.quit" in ended.stderr) == (2, True)
    assert httpx.get(f"{rules_sidecar.base}/health", timeout=60).status_code == 200


def test_a_server_loads_nothing_of_them() -> None:
    """The command line has the commands; their modules are imported when one of them runs."""
    code = (
        "import sys; from sidecar.cli.main import main; main.commands['serve']\n"
        "print(*sorted(name for name in sys.modules if 'sidecar.kubernetes' in name))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert loaded.stdout.split() == []


def test_a_pod_begins_in_monitor_mode_and_an_upgrade_keeps_it() -> None:
    """Settings of the first injection stay, those given now replace them, and are named."""
    options = (
        "--mode",
        "monitor",
        "--set",
        "scan.threshold=0.7",
        "--config-map",
        "settings",
        "--startup-seconds",
        "300",
    )
    first = run("inject", *options, stdin=yaml.safe_dump(workload("Job"))).stdout
    assert all(text in first for text in ("value: monitor", "config.yaml", "failureThreshold: 300"))
    upgraded = run("inject", "--image", "x:2", stdin=first)
    assert upgraded.stdout == first.replace("prompt-sidecar:0.1.0", "x:2")
    enforced = run("inject", "--mode", "enforce", stdin=upgraded.stdout)
    assert ("value: enforce" in enforced.stdout, "value: monitor" in enforced.stdout) == (True, False)
    assert "scan.threshold" not in run("inject", "--set", "mode=observe", stdin=first).stdout
    assert "SIDECAR__MODE" in run("inject", "--set", "mode=observe", stdin=first).stderr

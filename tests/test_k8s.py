"""The Kubernetes manifest agrees with the code: settings exist, ports and probes match, manners are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar import config

MANIFEST = Path(__file__).parent.parent / "k8s" / "sidecar.yaml"


@pytest.fixture(scope="module")
def container() -> dict[str, Any]:
    """The sidecar's container."""
    documents = list(yaml.safe_load_all(MANIFEST.read_text("utf-8")))
    deployment = next(document for document in documents if document["kind"] == "Deployment")
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]["initContainers"][0]
    return found


def test_every_variable_is_a_real_setting(container: dict[str, Any], tmp_path: Path) -> None:
    """The environment of the manifest is a valid configuration."""
    (tmp_path / "c.yaml").write_text("", "utf-8")
    environ = {item["name"]: item["value"] for item in container["env"]}
    settings = config.load(tmp_path / "c.yaml", environ)
    assert settings.upstream.url == "https://api.openai.com"
    assert settings.listen.host == "127.0.0.1"


def test_probes_ask_what_the_admin_port_answers(container: dict[str, Any]) -> None:
    """Named ports are the defaults of the settings, probed paths are served."""
    assert container["ports"] == [{"name": "admin", "containerPort": config.Settings().admin.port}]
    assert container["startupProbe"]["httpGet"] == {"path": "/startup", "port": "admin"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": "admin"}


def test_it_is_a_native_sidecar_with_least_privilege(container: dict[str, Any]) -> None:
    """Restarted always, no preStop, no root, no capabilities, read-only root, no key printed."""
    context = container["securityContext"]
    assert container["restartPolicy"] == "Always"
    assert "lifecycle" not in container
    assert "--no-first-key" in container["args"]
    assert (context["runAsNonRoot"], context["readOnlyRootFilesystem"]) == (True, True)
    assert context["capabilities"] == {"drop": ["ALL"]}

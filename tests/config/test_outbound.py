"""Twin of sidecar/config/outbound.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar import config
from sidecar.errors import ConfigError


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ALERTS__URL": "https://me:hush@hooks.example/x"}, "without a user"),
        ({"ALERTS__URL": "hooks.example/hush"}, "must be http://HOST/PATH"),
        ({"ALERTS__EVENTS": "[block_spike, everything]"}, "alerts.events.1"),
        ({"SINKS__SPLUNK__URL": "https://splunk:8088"}, "token_file"),
        ({"SINKS__SYSLOG__URL": "udp://host"}, "udp://HOST:PORT"),
        ({"SINKS__SYSLOG__URL": "http://host:514"}, "udp://HOST:PORT"),
        ({"SINKS__SYSLOG__URL": "tcp://host:x"}, "udp://HOST:PORT"),
    ],
)
def test_a_wrong_receiver_is_named_without_its_secret(variables: dict[str, str], words: str, tmp_path: Path) -> None:
    """The setting and the form; an address with a secret is never shown."""
    (tmp_path / "c.yaml").write_text("", "utf-8")
    with pytest.raises(ConfigError) as raised:
        config.load(tmp_path / "c.yaml", {f"SIDECAR__{name}": value for name, value in variables.items()})
    assert words in str(raised.value)
    assert "hush" not in str(raised.value)


def test_nothing_is_sent_by_default() -> None:
    """No receiver without an address."""
    settings = config.Settings()
    assert (settings.alerts.enabled, settings.sinks.splunk.url, settings.sinks.syslog.url) == (False, None, None)
    assert config.Alerts(url_file=Path("/run/secrets/hook")).enabled

"""`sidecar redirect`: an init step that redirects a pod's plain HTTP for the model through the sidecar.

For applications whose base URL cannot be changed. The rules are nftables rules in the pod's network namespace:
connections of any user but the sidecar's to the model's port, at any address, are redirected to the sidecar's port. A
change of the model's address is therefore no bypass; requests for other services on that port are refused by
`listen.hosts`. TLS cannot be inspected: the model must be called over plain HTTP.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from sidecar.cli.common import CONFIG, async_command, load_settings
from sidecar.config import Settings
from sidecar.errors import ConfigError, SidecarError

Network = IPv4Network | IPv6Network
PATIENCE = 20.0
"""Timeout of `nft` in seconds."""
_RULES = """\
table inet prompt_sidecar
delete table inet prompt_sidecar
table inet prompt_sidecar {{
	chain output {{
		type nat hook output priority -100; policy accept;
		meta skuid {uid} return comment "the sidecar itself"
		oifname "lo" return comment "within the pod"
{redirects}
	}}
}}
"""


def ruleset(port: int, target: int, uid: int, networks: Sequence[Network] = ()) -> str:
    """Input for `nft`: redirects TCP from `port` to `target`, except for the user `uid`; replaces its earlier rules."""
    redirects = "\n".join(f"\t\t{where}tcp dport {port} redirect to :{target}" for where in _places(networks))
    return _RULES.format(uid=uid, redirects=redirects)


def _places(networks: Sequence[Network]) -> Iterator[str]:
    """One match for each IP version that is named; everywhere if none is."""
    if not networks:
        yield ""
    for word, kind in (("ip", IPv4Network), ("ip6", IPv6Network)):
        matching: list[Any] = [network for network in networks if isinstance(network, kind)]
        if matching:
            yield f"{word} daddr {{ {', '.join(str(network) for network in collapse_addresses(matching))} }} "


def port_of(settings: Settings) -> int:
    """The model's port. Raises `ConfigError` for an upstream whose traffic cannot be redirected."""
    url = urlsplit(settings.upstream.url)
    problems = []
    if url.scheme != "http":
        problems.append(f"upstream.url: {url.scheme} cannot be inspected; it must be http://")
    if url.hostname in {"localhost", "127.0.0.1", "::1"}:
        problems.append("upstream.url: what stays within the pod is not redirected")
    if url.hostname and url.hostname not in settings.listen.hosts:
        problems.append(
            f"listen.hosts: {url.hostname} is not among them, so other hosts' requests would go to the model"
        )
    if problems:
        raise ConfigError("the traffic cannot be redirected", problems)
    return url.port or 80


class _NetworkParameter(click.ParamType[Network]):
    """`10.96.0.0/12`, `10.1.2.3`, `fd00::/8`."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Network:
        """Parse the argument."""
        try:
            return ip_network(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("redirect", short_help="Redirect a pod's plain HTTP into the sidecar.")
@CONFIG
@click.option(
    "--uid",
    type=click.IntRange(1, 2**32 - 2),
    default=65532,
    show_default=True,
    help="The user that the sidecar runs as.",
)
@click.option(
    "--to",
    "networks",
    type=_NetworkParameter(),
    multiple=True,
    help="Only connections to this network; may be repeated [default: everywhere]",
)
@click.option("--show", is_flag=True, help="Print the rules without applying them.")
@async_command
async def redirect_command(config_file: Path | None, uid: int, networks: tuple[Network, ...], show: bool) -> int:
    """Redirect this pod's plain HTTP for the model into the sidecar; an init step that needs NET_ADMIN.

    Applying it again changes nothing. It applies to every process except those of the sidecar's user.
    """
    settings = load_settings(config_file)
    rules = ruleset(port_of(settings), settings.listen.port, uid, networks)
    if show:
        click.echo(rules, nl=False)
    else:
        await asyncio.to_thread(_apply, rules)
    return 0


def _apply(rules: str) -> None:
    nft = shutil.which("nft")
    if nft is None:
        raise SidecarError("nft is not installed: the image has it, a host needs the package nftables")
    command = [nft, "-f", "-"]
    try:
        done = subprocess.run(command, input=rules, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise SidecarError(f"nft did not end within {PATIENCE:g} s") from None
    if done.returncode:
        raise SidecarError(f"nft refused the rules (is NET_ADMIN granted?): {' '.join(done.stderr.split())[:300]}")

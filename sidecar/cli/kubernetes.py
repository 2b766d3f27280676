"""`sidecar inject`, `sidecar webhook` and `sidecar quit`: injection into manifests and pods, and shutdown for Jobs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click
import yaml
from aiohttp import ClientError, ClientSession, ClientTimeout

from sidecar.cli.common import async_command
from sidecar.errors import YAML_ERRORS, ConfigError, SidecarError
from sidecar.kubernetes.options import Options
from sidecar.runtime import app
from sidecar.util import logs

FILE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--image", default=Options().image, show_default=True, help="The sidecar's image; pin a digest."),
    click.option("--upstream", default=Options().upstream, show_default=True, help="The model's base URL."),
    click.option("--secret", help="A Secret with the model's key under `upstream-key`."),
    click.option("--policies", help="A ConfigMap of *.yaml, read beside the shipped rules."),
    click.option("--app-env", is_flag=True, help="Set OPENAI_BASE_URL in the application's containers."),
    click.option("--redirect", is_flag=True, help="Redirect the pod's plain HTTP for the model (NET_ADMIN)."),
)


def _injecting(command: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., Coroutine[Any, Any, int]]:
    """Add the sidecar options to a command, passed to it as one `Options`."""

    @wraps(command)
    async def packed(**arguments: Any) -> int:
        chosen = {field.name: arguments.pop(field.name) for field in fields(Options)}
        return await command(Options(**chosen), **arguments)

    for option in reversed(_OPTIONS):
        packed = option(packed)
    return packed


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is the library's
        """No anchors: people read manifests."""
        return True


@click.command("inject")
@click.option(
    "-f",
    "--file",
    "file",
    type=click.File("r", encoding="utf-8"),
    default="-",
    help="Manifests [default: standard input]",
)
@async_command
@_injecting
async def inject_command(options: Options, file: Any) -> int:
    """Add the sidecar to every pod of Kubernetes manifests.

    Pods labelled or annotated `prompt-sidecar/inject: "false"` stay as they are. Injection is idempotent.
    """
    from sidecar.kubernetes.objects import inject_all  # noqa: PLC0415 - a server does without

    try:
        documents = list(yaml.safe_load_all(file.read()))
    except (yaml.YAMLError, *YAML_ERRORS) as error:
        raise ConfigError("the manifests cannot be read", [" ".join(str(error).split())]) from None
    injected = inject_all([document for document in documents if document is not None], options)
    click.echo(yaml.dump_all(injected, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120), nl=False)
    return 0


@click.command("webhook")
@click.option("--cert", type=FILE, default=Path("/run/tls/tls.crt"), show_default=True, help="PEM; watched.")
@click.option("--key", type=FILE, default=Path("/run/tls/tls.key"), show_default=True, help="PEM; watched.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on.")  # noqa: S104
@click.option("--port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="For the API server.")
@click.option("--health-port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="For probes.")
@click.option("--namespace", envvar="POD_NAMESPACE", help="The webhook's own: pods there are never changed.")
@async_command
@_injecting
async def webhook_command(
    options: Options, cert: Path, key: Path, host: str, port: int, health_port: int, namespace: str | None
) -> int:
    """Serve the mutating admission webhook until SIGTERM: pods that request a sidecar get one on creation."""
    from sidecar.kubernetes.webhook import Place, Webhook  # noqa: PLC0415 - a server does without

    logs.configure("json", "info")
    stop = app.stop_on_signal()
    async with Webhook(Place(cert, key, host, port, health_port), options, own_namespace=namespace):
        await stop.wait()
    return 0


@click.command("quit")
@click.option("--url", default="http://127.0.0.1:8081", show_default=True, help="The admin port of the sidecar.")
@async_command
async def quit_command(url: str) -> int:
    """Stop the sidecar in this pod, as a Job's last step without native sidecars; needs `admin.quit: true`."""
    try:
        async with ClientSession(timeout=ClientTimeout(total=30)) as session, session.post(f"{url}/quit") as answer:
            if answer.status == 202:
                return 0
            raise SidecarError(f"the sidecar refused to end (HTTP {answer.status}); is admin.quit set?")
    except (ClientError, TimeoutError, ValueError) as error:
        raise SidecarError(f"no sidecar answers at {url} ({type(error).__name__})") from None

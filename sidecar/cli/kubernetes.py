"""`sidecar inject`, `uninject`, `webhook` and `quit`: injection into manifests and pods, and shutdown for Jobs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from sidecar.cli import output
from sidecar.cli.common import async_command
from sidecar.errors import YAML_ERRORS, ConfigError, SidecarError
from sidecar.kubernetes import pod_settings
from sidecar.kubernetes.manifests import dump_all, load_all
from sidecar.kubernetes.objects import Request, Result, inject_all, uninject_all
from sidecar.kubernetes.options import OPTIONAL, Options
from sidecar.util import logs, yaml
from sidecar.util.signals import stop_on_signal

FILE = click.Path(dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--image", help=f"The sidecar's image; pin a digest. [default: {Options().image}]"),
    click.option(
        "--upstream",
        help=f"The model's base URL. [default: the application's own OPENAI_BASE_URL, or {Options().upstream}]",
    ),
    click.option("--secret", help="A Secret with the model's key under `upstream-key`."),
    click.option("--policies", help="A ConfigMap of *.yaml, read beside the shipped rules."),
    click.option(
        "--config-map", help="A ConfigMap with the settings, as `config.yaml`; the options below override it."
    ),
    click.option("--mode", type=click.Choice(["enforce", "monitor"]), help="monitor: forward everything, and log."),
    click.option(
        "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting, such as scan.threshold=0.7."
    ),
    click.option(
        "--data-port", type=int, help="The sidecar's port; the next one is its admin port. [default: 8080 if free]"
    ),
    click.option(
        "--startup-seconds", "startup", type=int, help=f"How long a start may take. [default: {Options().startup}]"
    ),
    click.option("--app-env/--no-app-env", default=None, help="Set OPENAI_BASE_URL in the application's containers."),
    click.option(
        "--redirect/--no-redirect", default=None, help="Redirect the pod's plain HTTP for the model (NET_ADMIN)."
    ),
)
_NAMES = tuple(field.name for field in fields(Options))
_FILE_OPTION = click.option(
    "-f", "--file", type=click.File("r", encoding="utf-8"), default="-", help="Manifests [default: standard input]"
)
_PATHS_OPTION = click.option(
    "--path",
    "paths",
    multiple=True,
    metavar="KIND=PATH",
    help="Where the pod template of a further kind is, such as MyJob=spec.template; `name[]` for each entry of a list.",
)
_COLOURS = {"injected": "green", "removed": "green", "unchanged": "green", "failed": "red"}


def _injecting(command: Callable[..., Coroutine[Any, Any, int]]) -> Callable[..., Coroutine[Any, Any, int]]:
    """Add the sidecar options to a command, passed to it as one `Options` and the names of those that were given."""

    @wraps(command)
    async def packed(**arguments: Any) -> int:
        mode, values = arguments.pop("mode"), {name: arguments.pop(name) for name in _NAMES}
        given = [*([f"mode={mode}"] if mode else []), *values["settings"]]
        values["settings"] = pod_settings.parse(given) if given else None
        explicit: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
        removed = {name: None for name in OPTIONAL if explicit.get(name) == ""}
        return await command(Options(**{**explicit, **removed}), set(explicit), **arguments)

    for option in reversed(_OPTIONS):
        packed = option(packed)
    return packed


@click.command("inject", short_help="Add the sidecar to Kubernetes manifests.")
@_FILE_OPTION
@_PATHS_OPTION
@click.option("--reset", is_flag=True, help="Make an injected sidecar anew, without what was changed in it by hand.")
@async_command
@_injecting
async def inject_command(options: Options, explicit: set[str], file: Any, paths: tuple[str, ...], reset: bool) -> int:
    """Add the sidecar to every pod of Kubernetes manifests; a line for each object goes to standard error.

    Pods labelled or annotated `prompt-sidecar/inject: "false"` stay as they are. Injecting again keeps what the
    earlier injection set and what was changed in the sidecar by hand, except for the options given now
    (`--secret ""` removes one) and with `--reset`; what is lost is named. An object that fails is left out, and
    the exit code is 2.
    """
    named = "upstream" in explicit
    kept = frozenset(_NAMES) - explicit
    request = Request(options, is_upstream_named=named, kept=kept, reset=reset, paths=_paths(paths))
    return _write(inject_all(_read(file), request))


@click.command("uninject", short_help="Remove the sidecar from Kubernetes manifests.")
@_FILE_OPTION
@_PATHS_OPTION
@async_command
async def uninject_command(file: Any, paths: tuple[str, ...]) -> int:
    """Remove the sidecar from every pod into which `sidecar inject` or the webhook has put it."""
    return _write(uninject_all(_read(file), _paths(paths)))


def _read(file: Any) -> list[object]:
    try:
        documents = [document for document in load_all(file.read()) if document is not None]
    except (yaml.YamlError, *YAML_ERRORS) as error:
        raise ConfigError("the manifests cannot be read", [yaml.describe(error)]) from None
    if not documents:
        raise ConfigError("there are no manifests", ["the input is empty"])
    return documents


def _paths(paths: tuple[str, ...]) -> dict[str, str]:
    pairs = [path.partition("=") for path in paths]
    if wrong := ["".join(pair) for pair in pairs if not (pair[0] and pair[2])]:
        raise ConfigError("--path", [f"{wrong[0]!r}: write it like MyJob=spec.template"])
    return {kind: path for kind, _, path in pairs}


def _write(results: list[Result]) -> int:
    """The manifests on standard output, a line for each object on standard error; 2 if one failed."""
    for result in results:
        colour = _COLOURS.get(result.state, "yellow")
        output.err.print(f"[{colour}]{result.state}[/]  {escape(result.name)}: {escape(result.reason)}")
        for note in result.notes:
            output.err.print(f"[yellow]note[/]  {escape(result.name)}: {escape(note)}")
    written = [result.document for result in results if result.state != "failed"]
    if written:
        click.echo(dump_all(written), nl=False)
    return 2 if any(result.state == "failed" for result in results) else 0


@click.command("webhook", short_help="Serve the mutating admission webhook.")
@click.option("--cert", type=FILE, default=Path("/run/tls/tls.crt"), show_default=True, help="PEM; watched.")
@click.option("--key", type=FILE, default=Path("/run/tls/tls.key"), show_default=True, help="PEM; watched.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on.")  # noqa: S104
@click.option("--port", type=click.IntRange(0, 65535), default=8443, show_default=True, help="For the API server.")
@click.option("--health-port", type=click.IntRange(0, 65535), default=8081, show_default=True, help="For probes.")
@click.option("--namespace", envvar="POD_NAMESPACE", help="The webhook's own: pods there are never changed.")
@async_command
@_injecting
async def webhook_command(
    options: Options,
    explicit: set[str],
    cert: Path,
    key: Path,
    host: str,
    port: int,
    health_port: int,
    namespace: str | None,
) -> int:
    """Serve the mutating admission webhook until SIGTERM: pods that request a sidecar get one on creation."""
    from sidecar.kubernetes.webhook import Place, Webhook  # noqa: PLC0415 - the others serve nothing

    logs.configure("json", "info")
    stop = stop_on_signal()
    request = Request(options, default=False, is_upstream_named="upstream" in explicit)
    async with Webhook(Place(cert, key, host, port, health_port), request, own_namespace=namespace):
        await stop.wait()
    return 0


@click.command("quit", short_help="Stop the sidecar in this pod, as a Job's last step.")
@click.option("--url", default="http://127.0.0.1:8081", show_default=True, help="The admin port of the sidecar.")
@async_command
async def quit_command(url: str) -> int:
    """Stop the sidecar in this pod, as a Job's last step without native sidecars; needs `admin.quit: true`."""
    from aiohttp import ClientError, ClientSession, ClientTimeout  # noqa: PLC0415 - the others ask nobody

    try:
        async with ClientSession(timeout=ClientTimeout(total=30)) as session, session.post(f"{url}/quit") as answer:
            if answer.status == 202:
                return 0
            raise SidecarError(f"the sidecar refused to end (HTTP {answer.status}); is admin.quit set?")
    except (ClientError, TimeoutError, ValueError) as error:
        raise SidecarError(f"no sidecar answers at {url} ({type(error).__name__})") from None

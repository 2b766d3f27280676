"""What a start would refuse, found without starting: files, extras and addresses that the settings name.

`problems` opens no connection. `connections` tries each one and changes nothing; a start with an upstream, judge or
Redis that does not answer is possible, so that these are problems of today, not of the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from importlib.util import find_spec
from socket import gaierror
from urllib.parse import urlsplit

from sidecar import limits, upstream
from sidecar.attachments.reader import AttachmentReader
from sidecar.auth.api_keys import read_pepper
from sidecar.config import Settings, Upstream
from sidecar.config.signing import read_signer
from sidecar.errors import ProblemsError, SidecarError, needs_extra
from sidecar.extraction.token_ids import Vocabularies
from sidecar.observability import tracing
from sidecar.observability.alert_webhook import read_url
from sidecar.runtime import outbound
from sidecar.runtime.builder import Scanner
from sidecar.scan import cache
from sidecar.storage import Store
from sidecar.types import Dependency
from sidecar.upstream.http import HttpUpstream
from sidecar.util.connections import describe_connection

TIMEOUT = 5.0
Probe = tuple[str, Callable[[], Awaitable[str | None]]]


async def problems(settings: Settings) -> list[str]:
    """Everything that a start would refuse beside policies and models."""
    checks = (
        _outbound,
        _pepper,
        _signer,
        _upstreams,
        _limits,
        _cache,
        _vocabularies,
        _telemetry,
        _extras,
        _identity,
        _store_file,
    )
    return [problem for check in checks for problem in await _problems_of(check, settings)]


async def _problems_of(check: Callable[[Settings], Awaitable[None]], settings: Settings) -> Iterable[str]:
    try:
        await check(settings)
    except ProblemsError as error:
        summary = str(error).partition("\n")[0]
        return [f"{summary}: {problem}" for problem in error.problems]
    except SidecarError as error:
        return [str(error)]
    return []


async def _outbound(settings: Settings) -> None:
    if settings.alerts.enabled:
        read_url(settings.alerts)
    async with outbound.sinks(settings.sinks):
        pass


async def _pepper(settings: Settings) -> None:
    read_pepper(settings.auth.pepper_file)


async def _signer(settings: Settings) -> None:
    read_signer(settings.audit)


async def _upstreams(settings: Settings) -> None:
    for service in _remote(settings):
        await (await upstream.open(service)).close()


async def _limits(settings: Settings) -> None:
    await (await limits.open(settings.limits.url)).close()


async def _cache(settings: Settings) -> None:
    await (await cache.open(settings.cache, bytes(32), cache.REPORT_CODEC)).close()


async def _vocabularies(settings: Settings) -> None:
    await asyncio.to_thread(Vocabularies, settings.inline.vocabularies)


async def _telemetry(settings: Settings) -> None:
    await (await tracing.start(settings.telemetry))()


async def _extras(settings: Settings) -> None:
    if settings.listen.grpc_port is not None and find_spec("grpc") is None:
        raise SidecarError(f"listen.grpc_port: {needs_extra('grpc')}")
    AttachmentReader(settings.inline)


async def _identity(settings: Settings) -> None:
    oidc = settings.admin.oidc
    if oidc.issuer is None:
        return
    if find_spec("joserfc") is None:
        raise SidecarError(f"admin.oidc.issuer: {needs_extra('oidc')}")
    from sidecar.dashboard.oidc_provider import OidcProvider  # noqa: PLC0415 - an extra

    OidcProvider(oidc)


async def _store_file(settings: Settings) -> None:
    if settings.store.url.startswith("sqlite") and (problem := await Store.try_connect(settings.store.url)):
        raise SidecarError(f"store.url: {problem}")


async def connections(settings: Settings, scanner: Scanner) -> AsyncIterator[tuple[str, str | None]]:
    """Each connection of the settings, with its problem if it cannot be made."""
    for name, probe in _probes(settings, scanner):
        yield name, await _in_time(probe)


async def _in_time(probe: Callable[[], Awaitable[str | None]]) -> str | None:
    try:
        async with asyncio.timeout(2 * TIMEOUT):
            return await probe()
    except TimeoutError:
        return "no answer in time"


def _probes(settings: Settings, scanner: Scanner) -> Iterable[Probe]:
    yield "store", lambda: Store.try_connect(settings.store.url)
    for service in _remote(settings):
        yield f"upstream {service.url}", lambda service=service: _try_upstream(service)  # type: ignore[misc]
    for name, url in (("limits", settings.limits.url), ("cache", settings.cache.url)):
        if url != "memory://":
            yield name, lambda url=url: _try_redis(url)  # type: ignore[misc]
    for name, part in scanner.dependencies:
        if name == "judge":
            yield name, lambda part=part: _try_part(part)  # type: ignore[misc]
    if settings.alerts.enabled:
        yield "alerts", lambda: _try_alerts(settings)
    if settings.telemetry.endpoint:
        yield "telemetry", lambda: _try_address(settings.telemetry.endpoint or "")


def _remote(settings: Settings) -> list[Upstream]:
    """The upstreams and MCP servers over HTTP, each once."""
    overrides = [terms.merged_with(settings.upstream) for terms in settings.models.values() if terms.upstream]
    return [
        service
        for service in (settings.upstream, *overrides, *settings.mcp.servers.values())
        if service.url.startswith("http")
    ]


async def _try_upstream(settings: Upstream) -> str | None:
    client = await upstream.open(settings)
    try:
        if isinstance(client, HttpUpstream):
            await client.try_connect()
            return client.problem and client.problem.rpartition(": ")[2]
        return None
    finally:
        await client.close()


async def _try_redis(url: str) -> str | None:
    from redis.asyncio import Redis  # noqa: PLC0415 - an extra
    from redis.exceptions import RedisError  # noqa: PLC0415

    client = Redis.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
    try:
        await client.ping()
    except (RedisError, OSError) as error:
        return f"Redis does not answer ({type(error).__name__})"
    finally:
        await client.aclose()
    return None


async def _try_part(part: Dependency) -> str | None:
    await part.probe()
    return part.problem


async def _try_alerts(settings: Settings) -> str | None:
    """Whether the receiver accepts a connection; nothing is sent, and its address is a secret."""
    return await _connect(read_url(settings.alerts))


async def _try_address(url: str) -> str | None:
    problem = await _connect(url)
    return problem and f"{urlsplit(url).hostname}:{_port(url)}: {problem}"


async def _connect(url: str) -> str | None:
    """Why no connection can be made; without the address."""
    try:
        _, writer = await asyncio.open_connection(urlsplit(url).hostname, _port(url))
    except gaierror as error:
        return str(error.strerror).lower()
    except OSError as error:
        return describe_connection(error)
    writer.close()
    return None


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)

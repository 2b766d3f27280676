"""Clients of Java, from Debian's packages: OkHttp, Apache's HttpClient, Spring's RestTemplate, and the JDK's own."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from clients.place import BUILD
from inline_proxy import ATTACK, InlineProxy, run_proxy
from recording import recording, respond

pytestmark = [pytest.mark.neighbours, pytest.mark.timeout(300)]
JAVA = BUILD / "java"
JARS = "okhttp okio httpclient httpcore httpmime spring3-web spring3-core spring3-beans commons-logging commons-codec"
SENDS_FORMS = ("okhttp", "okhttp-stream", "apache", "apache-utf8", "spring")
HARMLESS = "Who wrote Grüße aus dem Süden?"


async def asked(made: InlineProxy, client: str, kind: str, text: str) -> tuple[int, str]:
    """The status and body that one client receives."""
    path = ":".join([str(JAVA), *(str(JAVA / "root/usr/share/java" / f"{name}.jar") for name in JARS.split())])
    command = ["java", "-Dfile.encoding=UTF-8", "-cp", path, "Clients", client, kind, made.url, text]
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    status, _, body = said.decode().partition(" ")
    return int(status), body


def test_the_program_is_built() -> None:
    """`make neighbours` has downloaded the packages and compiled the program."""
    assert (Path(JAVA) / "Clients.class").exists()


@pytest.mark.parametrize("client", [*SENDS_FORMS, "jdk"])
async def test_a_request_of_each_client_passes_and_an_attack_does_not(client: str) -> None:
    """JSON with a length or in chunks, also from clients that prefer HTTP/2."""
    async with recording(respond(b'{"ok": 1}')) as upstream, run_proxy(upstream.url) as made:
        assert await asked(made, client, "json", HARMLESS) == (200, '{"ok": 1}\n')
        status, body = await asked(made, client, "json", ATTACK)
    assert (status, "content_filter" in body) == (400, True)
    assert len(upstream.requests) == 1
    assert HARMLESS.encode() in upstream.requests[0].body


@pytest.mark.parametrize("client", SENDS_FORMS)
async def test_a_form_of_each_client_passes_as_it_is_and_an_attack_does_not(client: str) -> None:
    """Forms with other part headers, non-ASCII names or no length are scanned, and forwarded byte for byte."""
    async with recording(respond(b'{"text": "hm"}')) as upstream, run_proxy(upstream.url) as made:
        assert await asked(made, client, "form", HARMLESS) == (200, '{"text": "hm"}\n')
        status, body = await asked(made, client, "form", ATTACK)
    assert (status, "content_filter" in body) == (400, True)
    assert HARMLESS in made.scanner.texts
    assert len(upstream.requests) == 1
    assert b"RIFF\x00\r\n\xff" in upstream.requests[0].body

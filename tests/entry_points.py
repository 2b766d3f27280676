"""Asks every entry point of a running sidecar what happens to a text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx2 as httpx
from click.testing import CliRunner
from envoy_stream import MODES, Outcome, exchange
from support import SidecarProcess

from sidecar.api.compat.envoy_messages import SERVICE, CheckRequest, CheckResponse
from sidecar.cli.main import main

COMPAT = (
    "moderations",
    "llm_guard",
    "lakera",
    "litellm",
    "agentgateway",
    "nemo",
    "fms_detectors",
    "portkey",
    "plano",
    "envoy",
)
CHAT = "/v1/chat/completions"
MODEL = {"model": "m"}
"""Sent wherever the contract has a place for it."""
Said = str | list[dict[str, Any]]
"""A text of the user, or the messages of a conversation."""


@dataclass(frozen=True)
class Reply:
    """What an entry point said: refused or not, the text that goes on if it was changed, and the response's headers."""

    blocked: bool
    changed: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200


@dataclass
class EntryPoints:
    """A running sidecar and a key."""

    sidecar: SidecarProcess
    key: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further header fields of every request."""

    def post(self, path: str, body: object) -> httpx.Response:
        """POST a JSON value with the key."""
        headers = {"X-API-Key": self.key, **self.fields}
        return httpx.post(self.sidecar.base + path, json=body, headers=headers, timeout=60)

    def inline(self, text: Said) -> Reply:
        """The inline proxy; the echo upstream says what it received."""
        response = self.post(CHAT, _chat(text) | MODEL)
        if response.status_code != 200:
            return Reply(True, None, response.headers, response.status_code)
        sent = response.json()["choices"][0]["message"]["content"]
        return Reply(False, sent if sent != text else None, response.headers, response.status_code)

    def prompt_scan(self, text: str) -> Reply:
        """`POST /api/v1/prompt/scan`."""
        return _scanned(self.post("/api/v1/prompt/scan", {"prompt": text}))

    def explain(self, text: str) -> Reply:
        """`POST /api/v1/prompt/explain`, which decides as `prompt/scan` does."""
        return _scanned(self.post("/api/v1/prompt/explain", {"prompt": text}))

    def chat_scan(self, text: Said) -> Reply:
        """`POST /api/v1/chat/scan`."""
        return _scanned(self.post("/api/v1/chat/scan", _chat(text) | MODEL))

    def batch(self, text: str) -> Reply:
        """`POST /api/v1/prompt/batch` with one prompt."""
        response = self.post("/api/v1/prompt/batch", [{"prompt": text}])
        return _scanned(response, response.json()[0] if response.status_code == 200 else {})

    def litellm(self, text: Said) -> Reply:
        """LiteLLM's generic guardrail."""
        texts = [text] if isinstance(text, str) else []
        body = {"input_type": "request", "texts": texts, "structured_messages": _chat(text)["messages"]} | MODEL
        response = self.post("/beta/litellm_basic_guardrail_api", body)
        action = response.json().get("action")
        changed = response.json()["texts"][0] if action == "GUARDRAIL_INTERVENED" else None
        return Reply(
            response.status_code != 200 or action == "BLOCKED", changed, response.headers, response.status_code
        )

    def agentgateway(self, text: Said) -> Reply:
        """Agentgateway's webhook."""
        response = self.post("/request", {"body": _chat(text)})
        action = response.json().get("action", {})
        mask = action["body"]["messages"][0]["content"] if isinstance(action.get("body"), dict) else None
        status = action.get("status_code", response.status_code)
        return Reply(response.status_code != 200 or "status_code" in action, mask, response.headers, status)

    def litellm_answer(self, text: str) -> Reply:
        """LiteLLM's generic guardrail after the call."""
        response = self.post("/beta/litellm_basic_guardrail_api", {"input_type": "response", "texts": [text]})
        return Reply(response.json().get("action") != "NONE", None, response.headers, response.status_code)

    def agentgateway_answer(self, text: str) -> Reply:
        """Agentgateway's webhook for responses."""
        response = self.post("/response", {"body": {"choices": [{"message": _answer(text)}]}})
        return Reply("status_code" in response.json()["action"], None, response.headers, response.status_code)

    def llm_guard(self, text: str) -> Reply:
        """LLM Guard's `/analyze/prompt`."""
        response = self.post("/analyze/prompt", {"prompt": text})
        said = response.json()
        changed = said.get("sanitized_prompt")
        return Reply(
            not said.get("is_valid"), changed if changed != text else None, response.headers, response.status_code
        )

    def llm_guard_scan(self, text: str) -> Reply:
        """LLM Guard's `/scan/prompt`, which returns no text."""
        response = self.post("/scan/prompt", {"prompt": text})
        return Reply(not response.json().get("is_valid"), None, response.headers, response.status_code)

    def lakera(self, text: Said) -> Reply:
        """Lakera Guard v2."""
        response = self.post("/v2/guard", _chat(text))
        return Reply(response.json().get("flagged", True), None, response.headers, response.status_code)

    def moderations(self, text: str) -> Reply:
        """OpenAI's moderations, answered by the sidecar."""
        response = self.post("/v1/moderations", {"input": text} | MODEL)
        results = response.json().get("results")
        return Reply(not results or results[0]["flagged"], None, response.headers, response.status_code)

    def nemo(self, text: Said) -> Reply:
        """The checks of NeMo Guardrails."""
        response = self.post("/v1/guardrail/checks", _chat(text) | MODEL)
        blocked = response.json().get("status") != "success"
        return Reply(blocked, None, response.headers, response.status_code)

    def nemo_jailbreak(self, text: str) -> Reply:
        """NeMo Guardrails' jailbreak detector; an error is a refusal with its status."""
        response = self.post("/v1/classify", {"input": text})
        said = response.json()
        status = said.get("error", {}).get("status", response.status_code)
        return Reply(said["jailbreak"], None, response.headers, status)

    def fms(self, text: Said) -> Reply:
        """The detector API of the FMS guardrails orchestrator: a text or a conversation."""
        if isinstance(text, str):
            response = self.post("/api/v1/text/contents", {"contents": [text]})
        else:
            response = self.post("/api/v1/text/chat", _chat(text))
        return Reply(response.json() not in ([], [[]]), None, response.headers, response.status_code)

    def fms_answer(self, text: str) -> Reply:
        """The same, an answer with its prompt."""
        response = self.post("/api/v1/text/generation", {"prompt": "Hello", "generated_text": text})
        return Reply(response.json() != [], None, response.headers, response.status_code)

    def portkey(self, text: Said) -> Reply:
        """Portkey's webhook before a request; an error is a failed check with its status."""
        return self._hooked({"eventType": "beforeRequestHook", "request": {"json": _chat(text) | MODEL}})

    def portkey_answer(self, text: str) -> Reply:
        """Portkey's webhook after a request."""
        response = {"json": {"choices": [{"message": _answer(text)}]}}
        return self._hooked(
            {"eventType": "afterRequestHook", "request": {"json": _chat("Hello")}, "response": response}
        )

    def _hooked(self, hook: dict[str, Any]) -> Reply:
        response = self.post("/portkey/webhook", hook | {"requestType": "chatComplete"})
        said = response.json()
        changed = said.get("transformedData")
        text = changed["request"]["json"]["messages"][0]["content"] if changed else None
        status = said.get("data", {}).get("status", response.status_code)
        return Reply(not said["verdict"], text, response.headers, status)

    def plano(self, text: Said) -> Reply:
        """Plano's HTTP filter."""
        response = self.post(f"/plano{CHAT}", _chat(text) | MODEL)
        if response.status_code != 200:
            return Reply(True, None, response.headers, response.status_code)
        sent = response.json()["messages"][0]["content"]
        changed = sent if isinstance(text, str) and sent != text else None
        return Reply(False, changed, response.headers, response.status_code)

    def envoy(self, text: Said) -> Reply:
        """Envoy's ext_authz over HTTP."""
        response = self.post(f"/envoy{CHAT}", _chat(text) | MODEL)
        return Reply(response.status_code != 200, None, response.headers, response.status_code)

    def envoy_grpc(self, text: Said) -> Reply:
        """Envoy's ext_authz over gRPC."""
        body = json.dumps(_chat(text) | MODEL).encode()
        headers = {
            ":method": "POST",
            ":path": CHAT,
            "content-type": "application/json",
            "x-api-key": self.key,
            **self.fields,
        }
        http = {"method": "POST", "path": CHAT, "size": len(body), "raw_body": body}
        http["headers"] = [{"key": name, "value": value} for name, value in headers.items()]
        port = self.sidecar.settings["listen"]["grpc_port"]  # type: ignore[index]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(f"/{SERVICE}/Check", CheckRequest.SerializeToString, CheckResponse.FromString)
            reply = call(CheckRequest(attributes={"request": {"http": http}}), timeout=60)
        allowed = reply.status.code == 0
        options = reply.ok_response.response_headers_to_add if allowed else reply.denied_response.headers
        status = 200 if allowed else reply.denied_response.status.code
        return Reply(not allowed, None, {option.header.key: option.header.value for option in options}, status)

    def envoy_processing(self, text: Said) -> Reply:
        """Envoy's ext_proc; the model says what it received."""
        return self._processed(text, None)

    def envoy_processing_answer(self, text: str) -> Reply:
        """Envoy's ext_proc, with an answer of the model."""
        return self._processed("Hello", text)

    def _processed(self, said: Said, answer: str | None) -> Reply:
        body = json.dumps(_chat(said) | {"model": "m"}).encode()
        port = self.sidecar.settings["listen"]["grpc_port"]  # type: ignore[index]

        async def ask() -> Outcome:
            reply = json.dumps({"choices": [{"index": 0, "message": _answer(answer or "Paris.")}]}).encode()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                return await exchange(channel, MODES[:1] * 2, [body], [reply], {"x-api-key": self.key, **self.fields})

        outcome = asyncio.run(ask())
        sent = json.loads(outcome.request.body)["messages"][0]["content"] if outcome.request else said
        changed = sent if sent != said and answer is None else None
        return Reply(outcome.status != 200, changed, outcome.response.headers, outcome.status)

    def command_line(self, text: str) -> Reply:
        """`sidecar scan`."""
        code = CliRunner().invoke(main, ["scan", text, "--config", str(self.sidecar.config)]).exit_code
        return Reply(code != 0, status=503 if code == 2 else 200)


Ask = Callable[[EntryPoints, Any], Reply]
ENTRY_POINTS: dict[str, Ask] = {
    "inline": EntryPoints.inline,
    "scan": EntryPoints.prompt_scan,
    "chat/scan": EntryPoints.chat_scan,
    "batch": EntryPoints.batch,
    "LiteLLM": EntryPoints.litellm,
    "Envoy HTTP": EntryPoints.envoy,
    "Envoy gRPC": EntryPoints.envoy_grpc,
    "Envoy processing": EntryPoints.envoy_processing,
    "agentgateway": EntryPoints.agentgateway,
    "LLM Guard": EntryPoints.llm_guard,
    "Lakera": EntryPoints.lakera,
    "moderations": EntryPoints.moderations,
    "NeMo": EntryPoints.nemo,
    "NeMo jailbreak": EntryPoints.nemo_jailbreak,
    "FMS": EntryPoints.fms,
    "Portkey": EntryPoints.portkey,
    "Plano": EntryPoints.plano,
    "command line": EntryPoints.command_line,
}


ANSWERS: dict[str, Ask] = {
    "LiteLLM": lambda entry_points, text: entry_points.litellm_answer(text),
    "Envoy processing": lambda entry_points, text: entry_points.envoy_processing_answer(text),
    "agentgateway": lambda entry_points, text: entry_points.agentgateway_answer(text),
    "Lakera": lambda entry_points, text: entry_points.lakera([*_chat("Hello")["messages"], _answer(text)]),
    "NeMo": lambda entry_points, text: entry_points.nemo([*_chat("Hello")["messages"], _answer(text)]),
    "FMS": lambda entry_points, text: entry_points.fms_answer(text),
    "Portkey": lambda entry_points, text: entry_points.portkey_answer(text),
}
"""The entry points beside inline that see a response of the model."""


def _answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _chat(said: Said) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": said}] if isinstance(said, str) else said}


def _scanned(response: httpx.Response, result: Mapping[str, Any] | None = None) -> Reply:
    value = response.json() if result is None else result
    return Reply(value.get("action") != "allow", None, response.headers, response.status_code)

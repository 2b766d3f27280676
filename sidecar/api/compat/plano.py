"""Plano's HTTP filter: `POST /plano` with the path of the request behind it.

Shapes from katanemo/plano (`crates/brightstaff/src/handlers/agents/pipeline.rs`, `execute_raw_filter`), the schema in
planoai 0.4.39 and docs.planoai.dev (`guides/prompt_guard`): an input filter of `type: http` gets the body of a request
for a model or an agent and returns it, changed or not; a status of 4xx or 5xx refuses the request. The headers are
those of the client's request, with the key among them. Under `pii: redact` the body has placeholders. Output filters
are not served: Plano passes on what a filter refuses there, and sends a stream in parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from aiohttp import web

from sidecar.api.compat.texts import body_input, require_object
from sidecar.api.endpoint import REPLACED_VALUES, ScanEndpoint, redacted_headers
from sidecar.config import Settings
from sidecar.errors import RequestError
from sidecar.extraction.dialect_fields import fields_of
from sidecar.extraction.extraction import extract
from sidecar.extraction.json_body import JsonValue
from sidecar.proxy.redaction import Redactor
from sidecar.scan.known_values import application_values
from sidecar.scan.selection import ScanInput
from sidecar.server.reasons import refusal_message
from sidecar.server.responses import DECISION_ID, blocked_response, error_response, scan_headers

PREFIX = "/plano/v1"
OPERATIONS = {"/chat/completions": "openai", "/responses": "openai", "/messages": "anthropic"}
"""The API of each operation of Plano's listeners."""


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """A request for a model."""

    scan_input: ScanInput
    body: JsonValue
    """With placeholders in place of personal data."""
    dialect: str


async def redact(operation: str, value: JsonValue, redactor: Redactor) -> int:
    """Replace personal data in the body."""
    if not isinstance(value, dict):
        return 0
    dialect = OPERATIONS[operation]
    application = application_values(extract(value, operation, dialect).segments)
    return len(await redactor.redact(value, application, fields_of(dialect)))


def parse(operation: str, value: JsonValue, settings: Settings) -> FilterRequest:
    """The body of a request of this operation. Raises `BodyError`."""
    body, dialect = require_object(value), OPERATIONS[operation]
    return FilterRequest(body_input(settings, body, operation, dialect), body, dialect)


async def respond(
    endpoint: ScanEndpoint, request: web.Request, api_request: FilterRequest
) -> tuple[object, dict[str, str]]:
    """The body of the request, or the refusal, and the headers of the response."""
    outcome = await endpoint.scan(request, api_request.scan_input)
    if not outcome.blocked and request.get(REPLACED_VALUES):
        return api_request.body, redacted_headers(request, outcome)
    headers = scan_headers(request[DECISION_ID], outcome.unscanned)
    if not outcome.blocked:
        return api_request.body, headers
    message = refusal_message(endpoint.settings.block.message, outcome.verdict, request[DECISION_ID])
    dialect, block = api_request.dialect, endpoint.settings.block
    return blocked_response(outcome.verdict, request[DECISION_ID], block, dialect, message), headers


def error(operation: str, request_error: RequestError) -> web.Response:
    """An error as the clients of the API read it; Plano reads the status."""
    return error_response(request_error, OPERATIONS[operation])

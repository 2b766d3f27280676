"""Twin of sidecar/api/compat/envoy_messages.py: bytes as Envoy writes them. Envoy itself is in test_gateways.py."""

from __future__ import annotations

from sidecar.api.compat.envoy_direction import OVERWRITE
from sidecar.api.compat.envoy_messages import CheckRequest, CheckResponse


def field(number: int, payload: bytes) -> bytes:
    """A field with a length, as the wire has it."""
    assert len(payload) < 128
    return bytes([number << 3 | 2, len(payload)]) + payload


def test_a_check_is_read_and_unknown_fields_are_skipped() -> None:
    """Method, headers, path, size and bytes, from among fields that we do not know."""
    header = field(3, field(1, b"content-type") + field(2, b"application/json"))
    http = field(1, b"id-1") + field(2, b"POST") + header + field(4, b"/v1/x") + bytes([9 << 3, 2]) + field(12, b"{}")
    wire = field(1, field(1, b"") + field(4, field(1, b"") + field(2, http)))
    read = CheckRequest.FromString(wire).attributes.request.http
    assert (read.method, read.path, read.size, read.raw_body) == ("POST", "/v1/x", 2, b"{}")
    assert [(item.key, item.value) for item in read.headers] == [("content-type", "application/json")]


def test_an_answer_is_written_as_envoy_reads_it() -> None:
    """A refusal has code 7 and the client's status; a permission has headers for both sides."""
    option = {"header": {"key": "a", "value": "b"}, "append_action": OVERWRITE}
    written = field(1, field(1, b"a") + field(2, b"b")) + bytes([3 << 3, 2])
    denied = CheckResponse(
        status={"code": 7}, denied_response={"status": {"code": 65}, "headers": [option], "body": "no"}
    )
    inner = field(1, bytes([8, 65])) + field(2, written) + field(3, b"no")
    assert denied.SerializeToString(deterministic=True) == field(1, bytes([8, 7])) + field(2, inner)
    allowed = CheckResponse(status={}, ok_response={"headers_to_remove": ["x"], "response_headers_to_add": [option]})
    inner = field(5, b"x") + field(6, written)
    assert allowed.SerializeToString(deterministic=True) == field(1, b"") + field(3, inner)

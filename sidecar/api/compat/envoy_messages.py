"""The messages of Envoy's `envoy.service.auth.v3` and `envoy.service.ext_proc.v3`, reduced to the fields used here.

Other fields are skipped. Names and numbers are those of Envoy's API (compared with xds-protos 1.85.0, those of
`ext_proc` with Envoy's `external_processor.proto` at commit 0015fbd5). That package is not used, since it overwrites
files of other packages (`google/rpc`, `opentelemetry/proto`).
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "envoy.service.auth.v3.Authorization"
PROCESSOR = "envoy.service.ext_proc.v3.ExternalProcessor"
PACKAGE = "sidecar.envoy"
REPEATED = "*"
_MESSAGES = {
    "CheckRequest": {"attributes": (1, "AttributeContext")},
    "AttributeContext": {"request": (4, "Request")},
    "Request": {"http": (2, "HttpRequest")},
    "HttpRequest": {
        "method": (2, "string"),
        "headers": (3, "*Entry"),
        "path": (4, "string"),
        "size": (9, "int64"),
        "body": (11, "string"),
        "raw_body": (12, "bytes"),
        "header_map": (13, "HeaderMap"),
    },
    "Entry": {"key": (1, "string"), "value": (2, "string")},  # the wire format of a map
    "HeaderMap": {"headers": (1, "*HeaderValue")},
    "HeaderValue": {"key": (1, "string"), "value": (2, "string"), "raw_value": (3, "bytes")},
    "HeaderValueOption": {"header": (1, "HeaderValue"), "append": (2, "BoolValue"), "append_action": (3, "int32")},
    "BoolValue": {"value": (1, "bool")},
    "Code": {"code": (1, "int32")},
    "DeniedHttpResponse": {"status": (1, "Code"), "headers": (2, "*HeaderValueOption"), "body": (3, "string")},
    "OkHttpResponse": {
        "headers": (2, "*HeaderValueOption"),
        "headers_to_remove": (5, "*string"),
        "response_headers_to_add": (6, "*HeaderValueOption"),
    },
    "CheckResponse": {
        "status": (1, "Code"),
        "denied_response": (2, "DeniedHttpResponse"),
        "ok_response": (3, "OkHttpResponse"),
    },
    "ProcessingRequest": {
        "request_headers": (2, "HttpHeaders"),
        "response_headers": (3, "HttpHeaders"),
        "request_body": (4, "HttpBody"),
        "response_body": (5, "HttpBody"),
        "request_trailers": (6, "HttpTrailers"),
        "response_trailers": (7, "HttpTrailers"),
        "observability_mode": (10, "bool"),
        "protocol_config": (11, "ProtocolConfiguration"),
    },
    "HttpHeaders": {"headers": (1, "HeaderMap"), "end_of_stream": (3, "bool")},
    "HttpBody": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "HttpTrailers": {"trailers": (1, "HeaderMap")},
    "ProtocolConfiguration": {"request_body_mode": (1, "int32"), "response_body_mode": (2, "int32")},
    "ProcessingResponse": {
        "request_headers": (1, "StepResponse"),
        "response_headers": (2, "StepResponse"),
        "request_body": (3, "StepResponse"),
        "response_body": (4, "StepResponse"),
        "request_trailers": (5, "TrailersResponse"),
        "response_trailers": (6, "TrailersResponse"),
        "immediate_response": (7, "ImmediateResponse"),
    },
    "StepResponse": {"response": (1, "CommonResponse")},  # HeadersResponse and BodyResponse
    "TrailersResponse": {"header_mutation": (1, "HeaderMutation")},
    "CommonResponse": {"header_mutation": (2, "HeaderMutation"), "body_mutation": (3, "BodyMutation")},
    "HeaderMutation": {"set_headers": (1, "*HeaderValueOption"), "remove_headers": (2, "*string")},
    "BodyMutation": {
        "body": (1, "bytes"),
        "clear_body": (2, "bool"),
        "streamed_response": (3, "StreamedBodyResponse"),
    },
    "StreamedBodyResponse": {"body": (1, "bytes"), "end_of_stream": (2, "bool")},
    "ImmediateResponse": {
        "status": (1, "Code"),
        "headers": (2, "HeaderMutation"),
        "body": (3, "bytes"),
        "details": (5, "string"),
    },
}
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
}


def _field(name: str, number: int, kind: str) -> Any:
    label = _Field.LABEL_REPEATED if kind.startswith(REPEATED) else _Field.LABEL_OPTIONAL
    type_name = kind.removeprefix(REPEATED)
    if type_name in _SCALARS:
        return _Field(name=name, number=number, label=label, type=_SCALARS[type_name])
    return _Field(name=name, number=number, label=label, type=_Field.TYPE_MESSAGE, type_name=f".{PACKAGE}.{type_name}")


def _classes() -> dict[str, Any]:
    """The message classes, from a separate pool, to avoid name conflicts with the real ones."""
    file = descriptor_pb2.FileDescriptorProto(name="sidecar/envoy.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        descriptors = (_field(field, number, kind) for field, (number, kind) in fields.items())
        file.message_type.add(name=name, field=descriptors)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"{PACKAGE}.{name}")) for name in _MESSAGES}


_CLASSES = _classes()
CheckRequest: Any = _CLASSES["CheckRequest"]
CheckResponse: Any = _CLASSES["CheckResponse"]
ProcessingRequest: Any = _CLASSES["ProcessingRequest"]
ProcessingResponse: Any = _CLASSES["ProcessingResponse"]

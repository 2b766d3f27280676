"""Tables of the field names of the Model Context Protocol. Data only; used by `mcp_message`.

Names from the protocol's schemas of 2024-11-05 to 2026-07-28. A name that is not listed is scanned as a text, and so is
every value, except the ones of `ENUMS` and those of `IDS` that look like an id.
"""

from __future__ import annotations

_NAMES = """
    _meta action annotations argument arguments audience blob cacheScope call cancel capabilities clientInfo code
    completion completions content contents context costPriority create createMessage createdAt cursor data description
    destructiveHint elicitation elicitationId elicitations error execution experimental extensions form hasMore hints
    icons id idempotentHint includeContext input inputRequests inputResponses inputSchema instructions
    intelligencePriority isError jsonrpc lastModified lastUpdatedAt level list listChanged logger logging maxTokens
    message messages metadata method mimeType mode model modelPreferences name nextCursor notifications openWorldHint
    outputSchema params pollInterval priority progress progressToken prompts promptsListChanged protocolVersion
    readOnlyHint reason ref requestId requestState requested requestedSchema requests required requiredCapabilities
    resource resourceSubscriptions resourceTemplates resources resourcesListChanged result resultType role roots
    sampling serverInfo size sizes speedPriority src status statusMessage stopReason stopSequences structuredContent
    subscribe supported supportedVersions systemPrompt task taskId taskSupport tasks temperature text theme title
    toolChoice toolUseId tools toolsListChanged total ttl ttlMs type uri uriTemplate url value values version websiteUrl
"""
NAMES = frozenset(_NAMES.split())
"""Field names that the protocol defines."""

_FREE_FORM = """
    _meta arguments experimental extensions input inputSchema metadata outputSchema requestedSchema structuredContent
"""
FREE_FORM = frozenset(_FREE_FORM.split())
"""Fields whose object has names that server, client or model choose."""

MAPS = frozenset({"inputRequests", "inputResponses"})
"""Fields whose object has names of the server's choice for requests and responses of the protocol."""

TEXTS = frozenset({"text"})
"""Fields of a content block, which a model reads in sequence with those beside it."""

MEDIA = frozenset({"blob", "data", "src"})
"""Fields that may hold base64 or a `data:` URL; the value decides, not the name."""

_IDS = """
    createdAt cursor elicitationId id lastModified lastUpdatedAt mimeType nextCursor progressToken protocolVersion
    requestId requestState supported supportedVersions requested taskId toolUseId
"""
IDS = frozenset(_IDS.split())
"""Opaque values and versions that no model reads: not scanned if they look like an id."""

_METHODS = """
    completion/complete elicitation/create initialize logging/setLevel ping prompts/get prompts/list resources/list
    resources/read resources/subscribe resources/templates/list resources/unsubscribe roots/list sampling/createMessage
    server/discover subscriptions/listen tasks/cancel tasks/get tasks/list tasks/result tasks/update tools/call
    tools/list notifications/cancelled notifications/elicitation/complete notifications/initialized
    notifications/message notifications/progress notifications/prompts/list_changed notifications/resources/list_changed
    notifications/resources/updated notifications/roots/list_changed notifications/subscriptions/acknowledged
    notifications/tasks/status notifications/tools/list_changed
"""
METHODS = frozenset(_METHODS.split())
"""The methods of requests and notifications."""

_ENUMS = {
    "action": "accept cancel decline",
    "audience": "assistant user",
    "cacheScope": "private public",
    "includeContext": "allServers none thisServer",
    "jsonrpc": "2.0",
    "level": "alert critical debug emergency error info notice warning",
    "mode": "auto form none required url",
    "resultType": "complete input_required",
    "role": "assistant user",
    "status": "cancelled completed failed input_required working",
    "stopReason": "endTurn maxTokens stopSequence toolUse",
    "taskSupport": "forbidden optional required",
    "theme": "dark light",
    "type": "audio image ref/prompt ref/resource resource resource_link text tool_result tool_use",
}
ENUMS = {name: frozenset(words.split()) for name, words in _ENUMS.items()} | {"method": METHODS}
"""Enum values by field name: not scanned there, and only there."""

DEFINITIONS = {
    "initialize": frozenset({"capabilities", "instructions", "serverInfo"}),
    "prompts/list": frozenset({"prompts"}),
    "sampling/createMessage": frozenset({"tools"}),
    "server/discover": frozenset({"capabilities", "instructions"}),
    "tools/list": frozenset({"tools"}),
}
"""By method, the fields with which a server defines what it offers: read like the tool definitions of a chat."""
ANY_DEFINITION = frozenset[str]().union(*DEFINITIONS.values())
"""The same for the result of an unknown request, such as one that a resumed stream repeats."""

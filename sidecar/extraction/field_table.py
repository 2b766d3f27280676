"""Tables of the field names of the APIs and their meaning. Data only; used by `walker`, `json_body` and `strings`.

Paths are written as in `messages[].content[].text`. A field that is not listed here is scanned.
"""

from __future__ import annotations

import re
import unicodedata

from sidecar.types import Source

_FREE_FORM = """
    metadata parameters input_schema output_schema schema properties attributes variables headers env item sample
    arguments input annotations chunking_strategy logit_bias extra_body chat_template_kwargs $defs definitions
    item_schema cache_control
"""
FREE_FORM = frozenset(_FREE_FORM.split())
"""Fields whose object has client-chosen names, which are scanned like values."""

_KNOWN_NAMES = """
    $defs acknowledged_safety_checks action actions add_generation_prompt add_special_tokens additional_instructions
    additional_messages after allowed_callers allowed_domains allowed_tools always anchor annotations any_of
    approval_request_id approve approximate arguments assistant_id attachments attributes audio audio_url auth
    authorization authorization_token b64_json background bad_words batch before best_of blocked_domains body
    budget_tokens button bytes cache_control call_id call_type caller caller_id chat_template chat_template_kwargs
    chatkit_configuration choices chunking_strategy citations cited_text city code code_interpreter command commands
    compact_threshold compaction comparison_filter completion_tokens completion_window computer computer_use
    connector_id container container_id content context context_levels context_management continue_final_message
    conversation country create_response custom custom_id cwd data data_source days defer_loading
    definition definitions delay description detail developer diff dimensions disable_parallel_tool_use
    display_height display_width document_index document_title domain domain_secrets dpo eagerness echo
    edits effort embedding_weight enabled encoding_format encrypted_content encrypted_index end_block_index
    end_char_index end_index end_page_number endpoint env environment error exclude exit_code expires_after
    expires_at external_web_access extra_body fields file file_data file_id file_ids file_search file_url filename
    files filter filters fingerprint format frequency_penalty function function_call functions generate_summary
    grader graders grammar group_id guided_choice guided_decoding_backend guided_grammar guided_json guided_regex
    headers height hybrid_search hyperparameters id idle_timeout_ms ids ignore_eos image image_file image_url images
    include include_obfuscation include_sources include_stop_str_in_output include_usage index inference_geo input
    input_audio input_audio_format input_audio_transcription input_fidelity input_file_id input_ids input_image_mask
    input_messages input_reference input_schema instructions instructions_search integrations interrupt_response
    is_error is_final item item_reference item_schema items json_schema keep key keys keywords known_speaker_names
    known_speaker_references known_speakers language languages last_messages length_penalty logit_bias logprob
    logprobs logs mask max_completion_tokens max_num_results max_output_length max_output_tokens max_prompt_tokens
    max_response_output_tokens max_tokens max_tool_calls max_uses mcp_servers md5 media_type message messages
    metadata method mime_type min_p min_tokens modalities mode model model_sample models moderation n name namespace
    network network_policy never noise_reduction object operation outcome output output_audio_format
    output_compression output_config output_format output_modalities output_schema outputs page_age
    parallel_tool_calls parameters params part_ids partial_image_b64 partial_images path pattern pending_safety_checks
    personality phase plugins prediction prefix prefix_padding_ms presence_penalty previous_response_id priority
    prompt prompt_cache_breakpoint prompt_cache_key prompt_cache_options prompt_cache_retention prompt_embeds
    prompt_logprobs prompt_token_ids prompt_tokens properties provider purpose quality queries query ranker
    ranking_options reason reasoning reasoning_content reasoning_effort refusal region reinforcement
    repetition_penalty requests require_approval response response_format responses result results retention_ratio
    return_token_ids revised_prompt rewrite_query role safety_identifier sample sampling_params schema score
    score_threshold scroll_x scroll_y sdp search_content_types search_context_size search_result_index seconds seed
    server_description server_label server_url service_tier session signature silence_duration_ms size skill_id
    skills skip_special_tokens source sources spaces_between_special_tokens speed start_block_index start_char_index
    start_index start_page_number state_variables static status status_code stderr stdout stop stop_sequences
    stop_token_ids store stream stream_format stream_options strict structured_outputs style suffix summary
    supervised svg syntax system target_uri tasks temperature template testing_criteria text text_weight thinking
    thread thread_id threshold timestamp_granularities timezone title token token_ids tokens tool_call_id tool_calls
    tool_choice tool_name tool_names tool_outputs tool_resources tool_use_id tools top_k top_logprobs top_p
    total_tokens tracing training_file transcript transcription transforms trigger truncate_prompt_tokens truncation
    truncation_strategy ttl tunnel_id turn_detection type url use_beam_search user user_id user_location users
    validation_file value variables vector_store_ids vector_stores verbosity version video video_url voice
    web_search_options width workflow workflow_name working_directory x y
"""
KNOWN_NAMES = frozenset(_KNOWN_NAMES.split())
"""Field names that the APIs define."""


def fold(name: str) -> str:
    """Fold a name as a lenient decoder may: case, width and compatibility forms (NFKC); control characters dropped."""
    if name.isascii() and name.isprintable():
        return name.lower()
    plain = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c)[0] != "C")
    return plain.upper().casefold()


FOLDED = {fold(name): name for name in KNOWN_NAMES}
"""The known names by their folded form."""


_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+=~-]{0,199}")


def looks_like_id(text: str) -> bool:
    """Whether a text has the form of an identifier, such as an id, a model name or an enum value."""
    return _ID.fullmatch(text) is not None


_ID_BREAK = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z])(?=[A-Z])")
_ID_WORD = re.compile(r"[A-Z]?[a-z]{2,13}|[A-Z]{3,14}")
MIN_ID_WORDS, MIN_ID_SHARE = 4, 0.6
"""Words of an id that may be a sentence, and their share of its letters and digits."""


def holds_words(text: str) -> bool:
    """Whether an id, or what should be ciphertext, may be a sentence whose words stand apart by signs or capitals."""
    pieces = list(filter(None, _ID_BREAK.split(text)))
    words = [piece for piece in pieces if _ID_WORD.fullmatch(piece)] if len(pieces) >= MIN_ID_WORDS else ()
    return len(words) >= MIN_ID_WORDS and sum(map(len, words)) >= MIN_ID_SHARE * sum(map(len, pieces))


ROLE_SOURCES = {
    "user": Source.USER,
    "system": Source.APPLICATION,
    "developer": Source.APPLICATION,
    "assistant": Source.MODEL,
    "tool": Source.UNTRUSTED,
    "function": Source.UNTRUSTED,
}
"""The source of a turn by its `role`; for any other value it is the user."""

_MODEL_ITEMS = """
    apply_patch_call code_interpreter_call compaction computer_call custom_tool_call file_search_call function_call
    image_generation_call item_reference local_shell_call mcp_approval_request mcp_call reasoning shell_call
    tool_search_call web_search_call
"""
MODEL_ITEMS = frozenset(_MODEL_ITEMS.split())
"""Types of conversation items that the model generated and that have no role."""

_DEFINITIONS = """
    tools functions tool_choice allowed_tools mcp_servers mcp_list_tools response_format format structured_outputs
    json_schema guided_json guided_grammar guided_regex guided_choice output_config output_schema chat_template grammar
"""
DEFINITIONS = frozenset(_DEFINITIONS.split())
"""Fields and item types that hold definitions of the application: tools and response schemas."""

RESULTS = frozenset({"output", "outputs", "results", "result", "error"})
"""Fields that hold tool results, regardless of the role of the turn."""

DOCUMENTS = frozenset({"documents", "document", "search_result", "input_file", "file"})
"""Fields and part types that hold documents for the model to read."""

THIRD_PARTY = frozenset({"annotations", "citations", "cited_text", "sources", "search_results", "web_search_result"})
"""Fields and item types that hold third-party text inside another turn: quotations, titles of sources."""

PROSE = frozenset(
    {
        "content",
        "text",
        "input_text",
        "instructions",
        "additional_instructions",
        "system",
        "output",
        "prompt",
        "input",
        "query",
        "queries",
        "stop",
    }
)
"""Fields whose texts the model reads in sequence, so that a sentence may be split across them."""

_ENUMS = {
    "type": """
        text input_text output_text refusal image_url input_image image input_audio file input_file document message
        function custom json_schema json_object grammar content tool_use tool_result tool thinking redacted_thinking
        ephemeral auto any none base64 url file_search web_search web_search_preview web_search_call code_interpreter
        computer_use_preview computer_call computer_call_output image_generation image_generation_call local_shell
        local_shell_call local_shell_call_output shell_call shell_call_output function_call function_call_output
        custom_tool_call custom_tool_call_output reasoning summary_text reasoning_text item_reference mcp mcp_call
        mcp_list_tools mcp_approval_request mcp_approval_response file_search_call url_citation file_citation
        container_file_citation file_path enabled disabled adaptive allowed_tools search exec image_file
        string number integer boolean object array null realtime transcription server_vad semantic_vad
    """,
    "role": "user system developer assistant tool function",
    "status": "in_progress completed incomplete failed searching",
    "detail": "auto low high original",
    "effort": "none minimal low medium high xhigh max",
    "reasoning_effort": "none minimal low medium high xhigh max",
    "summary": "auto concise detailed",
    "verbosity": "low medium high",
    "tool_choice": "auto none required any",
    "function_call": "auto none",
    "service_tier": "auto default flex scale priority standard_only",
    "truncation": "auto disabled",
    "encoding_format": "float base64",
    "response_format": "json text srt verbose_json vtt diarized_json url b64_json mp3 opus aac flac wav pcm",
    "format": "wav mp3 flac opus pcm16 pcm aac date date-time time email uuid uri int32 int64 float double",
    "modalities": "text audio image",
    "object": "chat.completion response list",
    "completion_window": "24h",
    "prompt_cache_retention": "in_memory 24h",
}
ENUMS = {name: frozenset(words.split()) for name, words in _ENUMS.items()}
"""Enum values by field name: not scanned there, and only there."""

_SCHEMA_WORDS = """
    $defs $ref $schema additionalProperties allOf anyOf const default description enum examples exclusiveMaximum
    exclusiveMinimum format items maxItems maxLength maximum minItems minLength minimum name not nullable oneOf
    pattern properties required strict title type
"""
SCHEMA_WORDS = frozenset(_SCHEMA_WORDS.split())
"""JSON Schema keywords, which are not scanned in the parameters of a tool."""

_REFERENCES = """
    assistant_id connector_id container_id conversation file_id file_ids file_url input_file_id previous_response_id
    server_url skill_id source_file_id training_file validation_file vector_store_ids
"""
REFERENCES = frozenset(_REFERENCES.split())
"""Fields that name a stored or remote object, whose text the model reads but that is not in the request."""
FETCH_TOOL_PREFIXES = ("web_search", "web_fetch")
"""Prefixes of the types of tools with which the provider fetches pages that are not in the request."""
FETCH_FIELDS = frozenset({"web_search_options"})
"""Fields of the body whose presence enables such a tool."""
REFERENCE_OBJECTS = frozenset({"conversation", "prompt", "item_reference"})
"""Objects that refer to a stored object by their `id`."""
REFERENCE_LISTS = frozenset({"mcp_servers"})
"""Lists whose items refer to a remote object by their `url`."""

MEDIA = frozenset(
    {
        "audio",
        "b64_json",
        "data",
        "file_data",
        "image",
        "image_url",
        "images",
        "partial_image_b64",
        "prompt_embeds",
        "result",
        "video",
    }
)
"""Fields that may hold base64 or the URL of media; the value decides, not the name."""

TOKEN_LISTS = frozenset({"prompt", "input", "input_ids", "prompt_token_ids", "token_ids", "tokens", "context"})
"""Lists that may hold token ids instead of text; Ollama returns `context` and takes it back."""
MAX_PLAIN_NUMBERS = 8
"""Up to this length a list of numbers in an unknown field counts as a size or position; a longer one as token ids."""

_ITEM_IDS = """
    id call_id approval_request_id container_id caller.caller_id encrypted_content content[].file_id output.file_id
    output[].file_id results[].file_id content[].annotations[].file_id content[].annotations[].container_id
    pending_safety_checks[].id acknowledged_safety_checks[].id action.sources[].type
"""
_IDS = """
    model previous_response_id conversation conversation.id prompt.id prompt.version assistant_id input_file_id
    moderation.model session.model data_source.model voice voice.id audio.voice audio.voice.id
    messages[].tool_call_id messages[].tool_calls[].id messages[].audio.id messages[].content[].file.file_id
    messages[].content[].id messages[].content[].tool_use_id messages[].content[].signature
    messages[].content[].source.file_id messages[].content[].source.media_type messages[].content[].image_file.file_id
    tool_outputs[].tool_call_id attachments[].file_id content[].image_file.file_id images[].file_id mask.file_id
    tools[].vector_store_ids[] tools[].container tools[].container.file_ids[] tools[].input_image_mask.file_id
    tool_resources.code_interpreter.file_ids[] tool_resources.file_search.vector_store_ids[]
"""
IDS = frozenset(_IDS.split()) | {f"{items}[].{name}" for items in ("input", "items") for name in _ITEM_IDS.split()}
"""The ignore list: exact paths of names and ids that no model reads; not scanned if the value looks like an id."""

OPAQUE = frozenset({"encrypted_content", "signature"})
"""Fields of the ignore list whose value is ciphertext of any length."""

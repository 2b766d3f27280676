"""The table: what the names in request bodies mean. Data only; `extraction` and `reading` read it.

Paths are written as in `messages[].content[].text`. Whatever is not named here is scanned.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_FREE_FORM = """
    metadata parameters input_schema output_schema schema properties attributes variables headers env item sample
    arguments input annotations chunking_strategy logit_bias extra_body chat_template_kwargs $defs definitions
    item_schema data_sources mm_processor_kwargs cache_control
"""
FREE_FORM = frozenset(_FREE_FORM.split())
"""An object under one of these names has names of the client's own, which are scanned like values."""

_KNOWN = """
    $defs acknowledged_safety_checks action actions additional_instructions additional_messages allowed_callers
    allowed_domains allowed_tools always annotations any_of approval_request_id approve approximate arguments
    assistant_id attachments attributes audio auth authorization authorization_token background batch best_of
    blocked_domains body cache_control call_id caller caller_id chat_template chat_template_kwargs chunking_strategy
    citations city code code_interpreter command commands compact_threshold comparison_filter completion_window
    computer computer_use connector_id container container_id content context context_management conversation country
    custom custom_id data data_source data_sources definition definitions delay description detail developer
    dimensions diff display_height display_width documents domain domain_secrets echo effort enabled encoding_format
    encrypted_content endpoint env environment error exclude expires_after extra_body
    fields file file_data file_id file_ids file_search file_url filename files filters fingerprint format
    frequency_penalty function function_call functions generate_summary grammar graders group_id guided_json
    guided_regex headers height id ids image image_file image_url images include include_obfuscation include_usage
    index inference_geo input input_audio input_file_id input_fidelity input_image_mask input_messages
    input_reference input_schema instructions instructions_search is_error item item_reference item_schema items
    json_schema key keys keywords known_speaker_names known_speaker_references known_speakers language languages
    logit_bias logprobs logs mask max_completion_tokens max_num_results max_output_tokens max_prompt_tokens
    max_tokens max_tool_calls max_uses mcp_servers media_type message messages metadata method mime_type min_p
    modalities mode model moderation n name namespace network_policy never object operation output
    output_compression output_config output_format output_schema outputs parallel_tool_calls parameters partial_images
    path pattern pending_safety_checks personality prediction prefix presence_penalty previous_response_id prompt
    prompt_cache_key prompt_cache_retention properties purpose quality queries query ranker ranking_options reason
    reasoning reasoning_effort reasoning_content refusal region repetition_penalty requests require_approval response
    response_format result results rewrite_query role safety_identifier sample sampling_params schema score
    score_threshold seconds seed server_description server_label server_url service_tier session signature size
    skill_id skills source speed status stderr stdout stop stop_sequences store stream stream_format stream_options
    strict structured_outputs style suffix summary system tasks temperature template text thinking thread timezone
    timestamp_granularities title token tokens tool_call_id tool_calls tool_choice tool_outputs tool_resources
    tool_use_id tools top_k top_logprobs top_p tracing transcription truncation truncation_strategy tunnel_id type
    url user user_location users value variables vector_store_ids vector_stores verbosity version voice
    web_search_options width workflow_name working_directory
"""
KNOWN = frozenset(_KNOWN.split())
"""Names that the APIs give a meaning to."""


def fold(name: str) -> str:
    """What a lenient decoder may take a name for: case, width and look-alike letters folded, controls dropped."""
    if name.isascii() and name.isprintable():
        return name.lower()
    plain = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c)[0] != "C")
    return plain.upper().casefold()


_FOLDED = {fold(name): name for name in KNOWN}


def mistakable(name: str) -> str | None:
    """The known name that a lenient decoder may read in this unknown one, if there is any."""
    return _FOLDED.get(fold(name)) if len(name) <= 64 else None


def is_free(name: str, value: object) -> bool:
    """Whether the names inside this member are the client's own."""
    return name not in KNOWN or (name in FREE_FORM and isinstance(value, dict))


@dataclass(frozen=True, slots=True)
class Shape:
    """Where an operation keeps its turns and the application's own instructions."""

    turns: tuple[str, ...] = ()
    system: tuple[str, ...] = ()

"""Holdout: families of our own corpus that no training uses, for an honest figure by family and language.

`python -m training.holdout OUT.jsonl` writes their rows, for `sidecar eval OUT.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import orjson

from training.rows import CORPUS, Row

NAMES = """
agent_memory api_error blunt_injection calendar_invite email_business fake_turn false_authority hypothetical
mcp_tool_description odd_format privilege_escalation refusal_suppression review role_hijack secret_extraction
subtitles verbatim
context_reset contract extraction_indirect jailbreak_fiction jailbreak_persuasion meeting_notes support_ticket
csv_cells game_frame kid_voice legal_clause owner_claim question_then_hijack question_then_refine resume
roundabout_extraction say_only sms turning_question wiki_edit
agreed_earlier fake_policy_update forged_history forged_turn many_shot_history quiet_omission
contract_clause_aside fake_ending false_handover lasting_habit memory_planting review_page_plant rule_expiry
silence_request
forced_opening quoted_authority service_bot_bending soft_pressure
loophole_logic group_chat_turns maker_farewell pledge_and_bond speech_level_switch classical_decree
voice_transcript notice_board group_chat letter_office off_topic_in_data secrecy_orders acta_y_verbale
pacto_inventado memory_rule_write language_loophole sql_shell_scraps translation_documents calendar_events
juego_con_trampa minutes_protocol field_report
museum_curator courteous_renegotiation token_economy oath_trance order_without_addressee keyword_search_swap
who_is_speaking bureaucratic_decree oath_and_kinship polite_question opposite_mirror tutor_bot_and_pupil
letters_that_revoke polite_steering language_teacher_role ticket_orders_reader moral_argument_about_rules
review_orders_reader story_wrapper only_a_test
from_next_answer tool_result_notes sungkan_halus hop_thu_den new_habit ticket_forum quiet_handover dak_aur_ticket
slow_agreement minutes_and_chat_order comment_whisper wiki_marginalia recita_senza_rete verbali_e_chat_di_gruppo
clean_slate_courtesy borrowed_grammar amnesia_plea ownerless_quill next_step_hints channel_export_murmur
jeepney_barker duiqi_keli_du
courtesy_persistence_aim public_voice_aim client_brief_aim exam_answer_aim documentary_voice
fiction_pretext_world
turns_persona_hardening turns_rule_trading about_red_team_report about_stage_directions
agents_handover agents_pasted_readme personas_grandmother_story personas_hypothetical_world
bots_poem_sideways bots_binding_promise
coding_issue_text coding_session_summary chats_invented_agreement chats_short_followup business_ticket_note
business_auditor_claim
definitions_tool_mail_copy definitions_framework_prompt technique_policy_puppetry
process_rule claimed_authority simulator
mails_prompt_reveal mails_fake_assistant_reply pages_tool_preference pages_rag_memory pages_web_review
technique_fiction_frame foreign_omit_fact foreign_agent_file_order languages_forged_authority languages_mail_order
"""
FAMILIES = frozenset(NAMES.split())
"""Chosen by name, a tenth of the rows, before any model was trained without them.

Each contains attacks or has a counterpart that does: a benign kind that is only held out alone teaches the model to
take it for an attack (measured: long foreign documents).
"""


def training_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows outside the holdout."""
    return [row for row in rows if not (row.from_corpus and row.family in FAMILIES)]


def holdout_rows(rows: Iterable[Row]) -> list[Row]:
    """The rows of the holdout."""
    return [row for row in rows if row.from_corpus and row.family in FAMILIES]


def lines(folder: Path = CORPUS) -> list[bytes]:
    """The holdout rows as stored in the corpus; the source is the family."""
    values = (orjson.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines())
    return [orjson.dumps({**value, "source": value["family"]}) for value in values if value["family"] in FAMILIES]


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
def main(out: Path) -> None:
    """Write the holdout rows."""
    rows = lines()
    out.write_bytes(b"\n".join(rows) + b"\n")
    click.echo(f"{len(rows)} rows of {len(FAMILIES)} families", err=True)


if __name__ == "__main__":
    main()

"""Scores texts with one other detector; runs in the peers' environment, without imports of our packages.

    python benchmarks/peers/score.py NAME < texts.jsonl > answers.jsonl

Input: one JSON string per line; output: one `[score, blocked, milliseconds]` per line, with the detector's defaults.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

Answer = tuple[float, bool]


def stackone() -> Callable[[str], Answer]:
    """Its default pipeline (patterns and model); the score is the model's."""
    defence = import_module("stackone_defender").create_prompt_defense(block_high_risk=True)
    defence.warmup_tier2()

    def ask(text: str) -> Answer:
        result = defence.defend_tool_result({"content": text}, "tool")
        return float(result.tier2_score or 0.0), not result.allowed

    return ask


def securevector() -> Callable[[str], Answer]:
    """Its offline model; a threat of any kind but personal data counts."""
    runtime = import_module("svguardian").resolve_runtime()
    model = import_module("svguardian.model.pure_infer").PureGuardian.load(runtime)
    analyse = import_module("svguardian.serve").analyze

    def ask(text: str) -> Answer:
        result = analyse(text, model)
        threat = bool(result["is_threat"]) and result["threat_type"] != "pii"
        return result["risk_score"] / 100 if result["threat_type"] != "pii" else 0.0, threat

    return ask


def injection_guard() -> Callable[[str], Answer]:
    """Its patterns, blocking from MEDIUM on as it does by default."""
    package = import_module("prompt_shield")
    scanner = package.PromptScanner(threshold="CRITICAL")

    def ask(text: str) -> Answer:
        try:
            result = scanner.scan(text)
        except package.InjectionRiskError as error:
            return float(error.risk_score), True
        return float(result.risk_score), result.severity in ("MEDIUM", "HIGH", "CRITICAL")

    return ask


def picket() -> Callable[[str], Answer]:
    """Its rules for texts that code has fetched, which is its default."""
    detector = import_module("aicordon.picket").load()

    def ask(text: str) -> Answer:
        found = len(detector.check(text).findings)
        return float(found), found > 0

    return ask


def jailguard() -> Callable[[str], Answer]:
    """Its classifier on the embedder that `benchmarks.peers.minilm` wrote, since it would download that."""
    os.environ |= {"JAILGUARD_MODEL_DIR": str(EMBEDDER), "JAILGUARD_MODEL_URL": "http://127.0.0.1:9/"}
    if not (EMBEDDER / "all-MiniLM-L6-v2.onnx").exists():
        raise SystemExit("no embedder: python -m benchmarks.peers.minilm")
    detect = import_module("jailguard").detect

    def ask(text: str) -> Answer:
        result = detect(text)
        return float(result.score), bool(result.is_injection)

    return ask


def litellm_filter() -> Callable[[str], Answer]:
    """The content filter of its proxy with the categories about prompts, blocking from medium severity on."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    hooks = import_module("litellm.proxy.guardrails.guardrail_hooks.litellm_content_filter.content_filter")
    categories = [{"category": f"prompt_injection_{kind}", "enabled": True, "action": "BLOCK"} for kind in LITELLM]
    guard = hooks.ContentFilterGuardrail(guardrail_name="filter", categories=categories)
    if len(guard.loaded_categories) != len(LITELLM):
        raise SystemExit("a category is missing")
    refusal, loop = import_module("fastapi").HTTPException, asyncio.new_event_loop()

    def ask(text: str) -> Answer:
        try:
            loop.run_until_complete(guard.apply_guardrail({"texts": [text]}, {}, "request"))
        except refusal:
            return 1.0, True
        return 0.0, False

    return ask


LITELLM = ("jailbreak", "system_prompt", "data_exfiltration")
EMBEDDER = Path(__file__).parents[2] / "build" / "peers" / "jailguard"
PEERS = {
    "stackone-defender": stackone,
    "securevector-guardian": securevector,
    "ai-injection-guard": injection_guard,
    "aicordon-picket": picket,
    "jailguard": jailguard,
    "litellm-filter": litellm_filter,
}


def main() -> None:
    """Score every line."""
    ask = PEERS[sys.argv[1]]()
    ask("Good morning.")
    for line in sys.stdin:
        text, began = json.loads(line), time.perf_counter()
        score, blocked = ask(text)
        sys.stdout.write(json.dumps([score, blocked, round((time.perf_counter() - began) * 1000, 3)]) + "\n")


if __name__ == "__main__":
    main()

"""Scores texts with one other detector; runs in the peers' environment, without imports of our packages.

    python benchmarks/peers/score.py NAME < texts.jsonl > answers.jsonl

Input: one JSON string per line; output: one `[score, blocked, milliseconds]` per line, with the detector's defaults.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module

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


PEERS = {"stackone-defender": stackone, "securevector-guardian": securevector, "ai-injection-guard": injection_guard}


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

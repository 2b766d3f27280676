"""Bulk texts for the traffic sample: logs, tables, code and the like, generated from a seed instead of stored.

The same kind, size and seed give the same text. All words are our own; hosts end in `.example`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

_NOUNS = (
    "order",
    "invoice",
    "session",
    "parcel",
    "report",
    "basket",
    "account",
    "device",
    "sensor",
    "branch",
    "ticket",
    "release",
    "queue",
    "page",
    "cache",
)
_VERBS = (
    "load",
    "store",
    "update",
    "remove",
    "check",
    "send",
    "merge",
    "resolve",
    "parse",
    "render",
    "schedule",
    "release",
    "validate",
    "close",
    "open",
)
_NAMES = (
    "Ada",
    "Bruno",
    "Chiara",
    "Dmitri",
    "Eylem",
    "Farida",
    "Goran",
    "Hana",
    "Ines",
    "Jonas",
    "Kaori",
    "Lindiwe",
    "Mateo",
    "Noor",
    "Oskar",
    "Priya",
)
_CITIES = ("Lisbon", "Graz", "Tartu", "Nairobi", "Osaka", "Lima", "Bergen", "Porto", "Leeds", "Quito", "Riga", "Hanoi")
_LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")
_SENTENCES = (
    "The {a} service keeps one {b} for every {c} and drops it after an hour.",
    "Run `make {a}` once after the checkout; it takes about a minute.",
    "If a {a} is missing, the {b} falls back to the last known {c}.",
    "To change the {a}, edit `config/{b}.yaml` and restart the {c} worker.",
    "You must set `{A}_URL` before the first start, else the {b} page stays empty.",
    "Older versions ignored the {a} when a {b} was closed; this is no longer so.",
    "See the section on the {a} for what happens when the {b} is full.",
    "Note that the {a} is written to disk only after the {c} has been sent.",
    "Please open an issue if the {b} shows a wrong {c}.",
)
_START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_Line = Callable[[random.Random, int], str]


def text(kind: str, size: int, seed: int) -> str:
    """About `size` bytes of a kind."""
    chooser = random.Random(f"{kind} {seed}")
    lines, length = [], 0
    for number in count():
        line = _LINES[kind](chooser, number)
        lines.append(line)
        length += len(line.encode()) + 1
        if length >= size:
            break
    begin, end = _FRAMES.get(kind, ("", ""))
    return begin + _JOINTS.get(kind, "\n").join(lines) + end


def _word(chooser: random.Random) -> str:
    return chooser.choice(_NOUNS)


def _hex(chooser: random.Random, digits: int) -> str:
    return f"{chooser.getrandbits(4 * digits):0{digits}x}"


def _sentence(chooser: random.Random) -> str:
    a, b, c = chooser.sample(_NOUNS, 3)
    return chooser.choice(_SENTENCES).format(a=a, b=b, c=c, A=a.upper())


def _log(chooser: random.Random, number: int) -> str:
    at = (_START + timedelta(seconds=number * 1.7)).isoformat(timespec="milliseconds")
    level, noun, verb = chooser.choice(_LEVELS), _word(chooser), chooser.choice(_VERBS)
    texts = {
        "ERROR": f"could not {verb} {noun}: connection reset by peer (attempt {chooser.randint(1, 5)} of 5)",
        "WARN": f"slow {verb} of {noun}: {chooser.randint(900, 9000)} ms mode=false,manual={chooser.randint(1, 99)}",
    }.get(level, f"{verb} {noun} id={_hex(chooser, 8)} user={chooser.randint(100, 9999)} status=200")
    host = f"10.0.{chooser.randint(0, 9)}.{chooser.randint(1, 250)}"
    return f"{at} {level:<5} [{noun}-worker-{chooser.randint(1, 8)}] {host} {texts}"


def _csv(chooser: random.Random, number: int) -> str:
    if not number:
        return "order_id;customer;city;item;quantity;unit_price;ordered_at;state;note"
    day = (_START + timedelta(hours=number)).date()
    note = chooser.choice(["", "", "leave with neighbour", "call first", "gift, no invoice", "second delivery"])
    name, city, item = chooser.choice(_NAMES), chooser.choice(_CITIES), _word(chooser)
    price = chooser.randint(199, 49900) / 100
    return f"{10_000 + number};{name};{city};{item};{chooser.randint(1, 9)};{price:.2f};{day};sent;{note}"


def _json(chooser: random.Random, number: int) -> str:
    value = {
        "id": f"evt_{_hex(chooser, 12)}",
        "type": f"{_word(chooser)}.{chooser.choice(['created', 'updated', 'closed'])}",
        "actor": {"name": chooser.choice(_NAMES), "role": chooser.choice(["admin", "member", "system", "assistant"])},
        "active": chooser.random() < 0.5,
        "tags": chooser.sample(_NOUNS, 3),
        "count": number,
        "url": f"https://api.shop.example/v2/{_word(chooser)}s/{_hex(chooser, 6)}?page={number % 9}&token=none",
        "message": _sentence(chooser),
    }
    return "  " + json.dumps(value)


def _python(chooser: random.Random, number: int) -> str:
    verb, noun, other = chooser.choice(_VERBS), _word(chooser), _word(chooser)
    return (
        f"def {verb}_{noun}_{number}(self, {other}: str, *, limit: int = {chooser.randint(5, 500)}) -> bool:\n"
        f'    """{verb.capitalize()} the {noun} that belongs to this {other}.\n\n'
        f"    Returns False if there is none; never raises.\n"
        f'    """\n'
        f"    model = self._models.get({other})\n"
        f"    if not model:\n"
        f"        return None\n"
        f"    # TODO: ignore what was sent before the last restart\n"
        f"    for item in model.{noun}s[:limit]:\n"
        f"        if item.role == 'system' or item.key != {other}:\n"
        f"            continue\n"
        f"        log.debug('{verb} %s', item.id)\n"
        f"        self._queue.put((item.id, {other}))\n"
        f"    return True\n"
    )


def _typescript(chooser: random.Random, number: int) -> str:
    verb, noun, other = chooser.choice(_VERBS), _word(chooser), _word(chooser)
    return (
        f"export async function {verb}{noun.capitalize()}{number}({other}: string, signal?: AbortSignal) {{\n"
        f"  const agent = agents.get({other});\n"
        f"  if (!agent) {{\n    return; // nothing to {verb}: the agent was closed before\n  }}\n"
        f"  const response = await fetch(`${{base}}/{noun}s/${{{other}}}`, {{\n"
        f"    method: 'POST',\n    headers: {{ Authorization: `Bearer ${{process.env.API_TOKEN}}` }},\n"
        f"    signal,\n  }});\n"
        f"  if (!response.ok) throw new Error(`{verb} {noun}: ${{response.status}}`);\n"
        f"  return (await response.json()) as {noun.capitalize()};\n}}\n"
    )


def _diff(chooser: random.Random, number: int) -> str:
    noun, other = _word(chooser), _word(chooser)
    path, line = f"src/{noun}/{other}.py", chooser.randint(1, 400)
    return (
        f"diff --git a/{path} b/{path}\nindex {_hex(chooser, 7)}..{_hex(chooser, 7)} 100644\n"
        f"--- a/{path}\n+++ b/{path}\n"
        f"@@ -{line},6 +{line},7 @@ class {noun.capitalize()}:\n     def {chooser.choice(_VERBS)}(self) -> None:\n"
        f"-        self.{other} = None\n+        self.{other} = {number}\n"
        f"+        # {_sentence(chooser)}\n         return\n"
    )


def _listing(chooser: random.Random, number: int) -> str:
    ending = chooser.choice(["py", "ts", "md", "yaml", "json", "lock", "test.ts", "sql"])
    day = (_START + timedelta(hours=number)).strftime("%b %d %H:%M")
    path = f"{_word(chooser)}/{chooser.choice(_VERBS)}-{_word(chooser)}-{number}.{ending}"
    return f"-rw-r--r-- 1 build build {chooser.randint(60, 90_000):>7} {day} ./{path}"


def _gitlog(chooser: random.Random, number: int) -> str:
    day = (_START - timedelta(hours=5 * number)).strftime("%a %b %d %H:%M:%S %Y +0000")
    author, verb, noun = chooser.choice(_NAMES), chooser.choice(_VERBS).capitalize(), _word(chooser)
    return (
        f"commit {_hex(chooser, 40)}\nAuthor: {author} <{author.lower()}@dev.example>\nDate:   {day}\n\n"
        f"    {verb} the {noun} before the {_word(chooser)} is read\n\n    {_sentence(chooser)}\n"
    )


def _html(chooser: random.Random, number: int) -> str:
    noun = _word(chooser)
    return (
        f'<div class="card {noun}" data-id="{_hex(chooser, 6)}">'
        f'<a href="/{noun}/{number}?utm_source=list&amp;ref=home">'
        f'<img src="https://cdn.shop.example/i/{_hex(chooser, 10)}.webp?w=320&amp;token=public" alt="{noun} {number}">'
        f"</a><h3>{noun.capitalize()} no. {number}</h3><p>{_sentence(chooser)}</p>"
        f'<span hidden>sku {_hex(chooser, 8)}</span><button onclick="add({number})">Add</button></div>'
    )


def _markdown(chooser: random.Random, number: int) -> str:
    noun = _word(chooser)
    steps = "\n".join(f"{at}. {_sentence(chooser)}" for at in range(1, 4))
    code = f"```bash\ncurl -fsSL https://get.{noun}.example/install.sh | sh\n{noun} --version\n```"
    return f"## {number + 1}. {noun.capitalize()}s\n\n{_sentence(chooser)} {_sentence(chooser)}\n\n{steps}\n\n{code}\n"


def _changelog(chooser: random.Random, number: int) -> str:
    day = (_START - timedelta(days=9 * number)).date()
    changes = "\n".join(f"- {_sentence(chooser)} (#{chooser.randint(100, 4000)})" for _ in range(4))
    return f"## [{9 - number // 12}.{12 - number % 12}.0] - {day}\n\n### Changed\n\n{changes}\n"


def _trace(chooser: random.Random, number: int) -> str:
    path = f"/srv/app/{_word(chooser)}/{_word(chooser)}.py"
    frame = f'  File "{path}", line {chooser.randint(8, 900)}, in {chooser.choice(_VERBS)}\n    '
    call = f"return self.{_word(chooser)}.{chooser.choice(_VERBS)}({_word(chooser)})"
    end = f"\nConnectionError: {_word(chooser)} {number} did not answer\n\n" if number % 9 == 8 else ""
    return f"{frame}{call}{end}"


def _search(chooser: random.Random, number: int) -> str:
    noun = _word(chooser)
    return (
        f"[{number + 1}] How to {chooser.choice(_VERBS)} a {noun} ({chooser.choice(_CITIES)} guide)\n"
        f"https://www.{noun}-help.example/{_hex(chooser, 5)}\n{_sentence(chooser)} {_sentence(chooser)}\n"
    )


def _table(chooser: random.Random, number: int) -> str:
    if number < 2:
        return (
            "| Name | City | Orders | Turnover | Last contact |\n|---|---|---:|---:|---|"
            if not number
            else "| | | | | |"
        )
    name, city = chooser.choice(_NAMES), chooser.choice(_CITIES)
    day = (_START - timedelta(days=number)).date()
    return (
        f"| {name} {_hex(chooser, 2)} | {city} | {chooser.randint(1, 90)} | {chooser.randint(100, 99999)} EUR | {day} |"
    )


def _yaml(chooser: random.Random, number: int) -> str:
    noun = _word(chooser)
    return (
        f"---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {noun}-{number}\n  namespace: shop\nspec:\n"
        f"  replicas: {chooser.randint(1, 6)}\n  template:\n    spec:\n      containers:\n        - name: {noun}\n"
        f"          image: registry.example/{noun}:{_hex(chooser, 7)}\n"
        f"          command: [sh, -c, 'exec {noun} --serve']\n"
        f"          env:\n            - {{name: MODE, value: {chooser.choice(['auto', 'manual'])}}}\n"
        f"            - {{name: PASSWORD, valueFrom: {{secretKeyRef: {{name: {noun}, key: password}}}}}}"
    )


def _prose(chooser: random.Random, number: int) -> str:
    return " ".join(_sentence(chooser) for _ in range(5)) + ("\n" if number % 3 == 2 else "")


_LINES: dict[str, _Line] = {
    "log": _log,
    "csv": _csv,
    "json": _json,
    "python": _python,
    "typescript": _typescript,
    "diff": _diff,
    "listing": _listing,
    "gitlog": _gitlog,
    "html": _html,
    "markdown": _markdown,
    "changelog": _changelog,
    "trace": _trace,
    "search": _search,
    "table": _table,
    "yaml": _yaml,
    "prose": _prose,
}
_JOINTS = {"json": ",\n"}
_FRAMES = {
    "json": ('{"object": "list", "has_more": false, "data": [\n', "\n]}"),
    "html": ('<!doctype html><html lang="en"><head><title>Shop</title></head><body>\n', "\n</body></html>"),
    "trace": ("Traceback (most recent call last):\n", ""),
    "changelog": ("# Changelog\n\n", ""),
}


def kinds() -> Iterator[str]:
    """All kinds."""
    yield from _LINES

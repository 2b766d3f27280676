"""The clients: how each is configured for the sidecar, and which of its tools the scripted model uses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clients.dialects import MODEL, Call, Step
from clients.place import AGENTS, AIDER, NODE, Place

KEY = "no-key"
FILE = "notes.md"
LIST = "List the files here and say how many there are."
READ = f"Read {FILE} and say in one sentence what it is about."
LISTED = "There are three files in this folder."
WAS_READ = "It is about a weather station on a roof."
FRAMEWORKS = Path(__file__).parent / "frameworks"
Command = list[str | Path]


@dataclass(frozen=True)
class Task:
    """A prompt for the client, the steps of the model, and the text that the client prints at the end."""

    text: str
    steps: tuple[Step, ...]
    answer: str
    attached: bool = False
    """The file is passed to the client with the task."""


@dataclass(frozen=True)
class Client:
    """A client that runs without interaction."""

    name: str
    command: Callable[[Place, Task], Command]
    first: Task
    reading: Task
    in_turn: bool = False
    """The file is sent in a user message, not as the result of a tool."""

    @property
    def place(self) -> str:
        """The place that the sidecar's refusal names for an order in the file."""
        step = self.reading.steps[0]
        called = isinstance(step, Call) and not self.in_turn
        return f"the result of tool `{step.name}`" if called else "a message of the user"


def _tasks(listing: Step, reading: Step, end: Callable[[str], tuple[Step, ...]] = lambda text: (text,)) -> list[Task]:
    return [Task(LIST, (listing, *end(LISTED)), LISTED), Task(READ, (reading, *end(WAS_READ)), WAS_READ)]


def claude(place: Place, task: Task) -> Command:
    """Claude Code, over messages."""
    place.environment = {
        "ANTHROPIC_BASE_URL": place.url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }
    return [NODE / "claude", "-p", task.text, "--allowedTools", "Bash", "Read"]


CODEX = """model = "{model}"
model_provider = "here"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[features]
plugins = false
[model_providers.here]
name = "here"
base_url = "{url}/v1"
env_key = "MODEL_KEY"
wire_api = "responses"
"""


def codex(place: Place, task: Task) -> Command:
    """Codex, over responses."""
    place.write(".codex/config.toml", CODEX.format(model=MODEL, url=place.url))
    place.environment = {"MODEL_KEY": KEY}
    return [NODE / "codex", "exec", "--skip-git-repo-check", "--sandbox", "read-only", task.text]


def codex_by_websocket(place: Place, task: Task) -> Command:
    """Codex with a provider that is configured for websockets: it tries one first."""
    command = codex(place, task)
    text = f"{CODEX}supports_websockets = true\n".format(model=MODEL, url=place.url)
    place.write(".codex/config.toml", text)
    return command


def opencode(place: Place, task: Task) -> Command:
    """opencode, over chat completions."""
    provider = {"npm": "@ai-sdk/openai-compatible", "models": {MODEL: {"name": MODEL, "tool_call": True}}}
    provider |= {"options": {"baseURL": f"{place.url}/v1", "apiKey": KEY}}
    settings = {"model": f"here/{MODEL}", "provider": {"here": provider}, "autoupdate": False, "share": "disabled"}
    place.write(".config/opencode/opencode.json", json.dumps(settings))
    place.write(".npmrc", "offline=true\n")  # it installs types for plugins in the background
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE")
    place.environment = {f"OPENCODE_DISABLE_{name}": "true" for name in off}
    return [NODE / "opencode", "run", task.text]


def aider(place: Place, task: Task) -> Command:
    """aider, over chat completions; files go into its context."""
    at = ["--openai-api-base", f"{place.url}/v1", "--openai-api-key", KEY, "--model", f"openai/{MODEL}"]
    quiet = ["--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-show-release-notes"]
    alone = [
        "--no-git",
        "--yes-always",
        "--no-pretty",
        "--no-fancy-input",
        "--no-detect-urls",
        "--no-suggest-shell-commands",
    ]
    place.write(".aider/caches/model_prices_and_context_window.json", json.dumps({MODEL: {}}))  # else it fetches them
    place.environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return [AIDER / "aider", *at, *quiet, *alone, *(["--read", FILE] if task.attached else []), "--message", task.text]


def llm(place: Place, task: Task) -> Command:
    """The `llm` command, over chat completions, with functions as tools."""
    model = f"- model_id: {MODEL}\n  model_name: {MODEL}\n  api_base: {place.url}/v1\n  supports_tools: true\n"
    place.write("llm/extra-openai-models.yaml", model)
    place.environment = {"LLM_USER_PATH": str(place.home / "llm"), "OPENAI_API_KEY": KEY}
    tools = ["--functions", (FRAMEWORKS / "folder_tools.py").read_text("utf-8")]
    return [AGENTS / "llm", "-m", MODEL, *tools, *(["-f", FILE] if task.attached else []), task.text]


def mini(place: Place, task: Task) -> Command:
    """mini-swe-agent, over chat completions by LiteLLM."""
    place.environment = {
        "OPENAI_API_BASE": f"{place.url}/v1",
        "OPENAI_API_KEY": KEY,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "2",  # instead of ten, up to a minute apart
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    return [AGENTS / "mini", "-m", f"openai/{MODEL}", "-y", "--exit-immediately", "-t", task.text]


def framework(name: str) -> Callable[[Place, Task], Command]:
    """A program of ours that uses an agent framework."""

    def command(place: Place, task: Task) -> Command:
        place.environment = {"OPENAI_BASE_URL": f"{place.url}/v1", "OPENAI_API_KEY": KEY, "PYTHONPATH": str(FRAMEWORKS)}
        return [AGENTS / "python", FRAMEWORKS / f"{name}.py", MODEL, task.text]

    return command


def _submit(text: str) -> tuple[Step, ...]:
    return (Call("bash", {"command": f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '{text}'"}),)


def _final(text: str) -> tuple[Step, ...]:
    return (Call("final_answer", {"answer": text}),)


def _code(line: str) -> str:
    return f"Thought: one step.\n<code>\n{line}\n</code>"


HELLO = "hello.py\n```\nprint('Good morning')\n```\n"
EDIT = Task("Write hello.py, which prints a greeting.", (HELLO,), "Applied edit to hello.py")
ATTACHED = Task(READ, (WAS_READ,), WAS_READ, attached=True)
LS, CAT = "ls", f"cat {FILE}"
FUNCTIONS = Call("list_files"), Call("read_file", {"path": FILE})
CODE = _code("print(list_files())"), _code(f"print(read_file({FILE!r}))")

CLIENTS = [
    Client("claude-code", claude, *_tasks(Call("Bash", {"command": LS}), Call("Read", {"file_path": FILE}))),
    Client("codex", codex, *_tasks(Call("exec_command", {"cmd": LS}), Call("exec_command", {"cmd": CAT}))),
    Client("opencode", opencode, *_tasks(Call("bash", {"command": LS}), Call("read", {"filePath": FILE}))),
    Client("aider", aider, EDIT, ATTACHED),
    Client("llm", llm, *_tasks(*FUNCTIONS)),
    Client("llm-fragment", llm, _tasks(*FUNCTIONS)[0], ATTACHED),
    Client("mini-swe-agent", mini, *_tasks(Call("bash", {"command": LS}), Call("bash", {"command": CAT}), _submit)),
    Client("smolagents", framework("smol"), *_tasks(*FUNCTIONS, _final), in_turn=True),
    Client("smolagents-code", framework("smol_code"), *_tasks(*CODE, lambda text: (_code(f"final_answer({text!r})"),))),
    Client("langchain", framework("chain"), *_tasks(*FUNCTIONS)),
    Client("pydantic-ai", framework("pydantic_agent"), *_tasks(*FUNCTIONS)),
    Client("openai-agents", framework("openai_agent"), *_tasks(*FUNCTIONS)),
]

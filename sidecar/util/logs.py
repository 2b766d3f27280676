"""Structured logs on standard error: `event` is a constant noun_verb, facts are keys.

Strings supplied by clients (paths, models, key names) are escaped before rendering, so a log entry is one line
without terminal control sequences. Prompt text is never passed to a logger.
"""

from __future__ import annotations

import json
import logging
import sys
from time import monotonic
from typing import Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from sidecar.util import json as jsons

REPEAT_AFTER = 1.0
"""Seconds before a library may repeat a line: an event loop out of memory logged thousands of them a second."""
MAX_REMEMBERED = 100


class LibraryHandler(logging.StreamHandler[TextIO]):
    """Library logs, one line each: no traceback and no exception text, since it may quote a prompt."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._last_logged: dict[str, float] = {}

    def format(self, record: logging.LogRecord) -> str:
        """Only the first line of the message: the others hold arguments and state."""
        message = record.getMessage().partition("\n")[0]
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        return " ".join(part for part in (record.levelname, record.name, message, kind) if part)

    def filter(self, record: logging.LogRecord) -> bool:
        """Drop a line that was logged less than `REPEAT_AFTER` seconds ago."""
        try:
            line, now = self.format(record), monotonic()
            if now - self._last_logged.get(line, -REPEAT_AFTER) < REPEAT_AFTER:
                return False
            if len(self._last_logged) >= MAX_REMEMBERED:
                self._last_logged.clear()
            self._last_logged[line] = now
        except MemoryError:
            return False
        return True


def _escape(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters, line separators and lone surrogates."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = value.encode("unicode_escape", "backslashreplace").decode("ascii")
    return event


def _one_line_errors(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Log an exception as its type and text, without a stack trace."""
    error = event.pop("error", None)
    if isinstance(error, BaseException):
        event["error"] = f"{type(error).__name__}: {error}"
    elif error is not None:
        event["error"] = error
    return event


_worker: list[int] = []


def name_worker(number: int) -> None:
    """Add the number of this worker process to each line from now on."""
    _worker[:] = [number]


def _add_worker(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Tell the lines of several processes apart."""
    return {**event, "worker": _worker[0]} if _worker and "worker" not in event else event


def _json(event: EventDict, **_: object) -> str:
    """Serialize with orjson, which covers nearly everything; fall back to `json`. Other types are logged as `repr`."""
    try:
        return jsons.dumps(event, default=repr).decode()
    except TypeError:
        return json.dumps(event, default=repr)


def configure(style: Literal["console", "json"], level: str) -> None:
    """Set up structlog and the standard library's logging, once, at startup."""
    renderer: Processor = (
        structlog.processors.JSONRenderer(serializer=_json)
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _add_worker,
            _one_line_errors,
            _escape,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[LibraryHandler()])
    logging.raiseExceptions = False  # a failure to log is not worth a traceback


def is_json() -> bool:
    """Whether lines are JSON now, for one that does not come from a module's logger."""
    processors = structlog.get_config()["processors"]
    return structlog.is_configured() and isinstance(processors[-1], structlog.processors.JSONRenderer)


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger that adds the module's name to each line."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger

"""Structured logs on standard error: `event` is a constant noun_verb, facts are keys.

Client-made strings (paths, models, key names) are escaped before they are rendered, so a log line is
one line and carries no terminal control sequences. Prompt text is never passed to a logger.
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

AGAIN = 1.0
"""Seconds until a library may say the same again: a loop without memory said it thousands of times a second."""
MOST_SAID = 100


class Libraries(logging.StreamHandler[TextIO]):
    """What libraries have to say, one line each: no traceback and no text of an exception, which may quote a prompt."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._said: dict[str, float] = {}

    def format(self, record: logging.LogRecord) -> str:
        """The first line alone: what follows are arguments and states."""
        said = record.getMessage().partition("\n")[0]
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        return " ".join(word for word in (record.levelname, record.name, said, kind) if word)

    def filter(self, record: logging.LogRecord) -> bool:
        """Not the same again and again."""
        try:
            line, now = self.format(record), monotonic()
            if now - self._said.get(line, -AGAIN) < AGAIN:
                return False
            if len(self._said) >= MOST_SAID:
                self._said.clear()
            self._said[line] = now
        except MemoryError:
            return False
        return True


def _escape(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Control characters, line separators and lone surrogates become visible escapes."""
    for key, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[key] = value.encode("unicode_escape", "backslashreplace").decode("ascii")
    return event


def _one_line_errors(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """An exception becomes its type and text: a stack trace is for `level: debug`."""
    error = event.pop("error", None)
    if isinstance(error, BaseException):
        event["error"] = f"{type(error).__name__}: {error}"
    elif error is not None:
        event["error"] = error
    return event


def _json(event: EventDict, **_: object) -> str:
    """Fast for what orjson writes, nearly everything; what JSON has no form for is shown as Python shows it."""
    try:
        return jsons.dumps(event, default=repr).decode()
    except TypeError:
        return json.dumps(event, default=repr)


def configure(style: Literal["console", "json"], level: str) -> None:
    """Set up structlog and the standard library's logging, once, at start."""
    renderer: Processor = (
        structlog.processors.JSONRenderer(serializer=_json)
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _one_line_errors,
            _escape,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[Libraries()])
    logging.raiseExceptions = False  # what cannot be said is not worth a traceback


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """A logger that says which module speaks."""
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger(module=name)
    return logger

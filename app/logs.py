"""Where log lines go and how they look: stderr; for a person at a terminal, else `key=value` or JSON, a line each."""

import logging
import re
import sys
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, Processor

from config.settings import ServerSettings


def configure(server: ServerSettings) -> None:
    """Sets up structlog and the standard library's logging. No traceback ever shows the values of variables."""
    level = logging.getLevelNamesMapping()[server.log_level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _renderer(server.log_format),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(
        level=max(level, logging.WARNING), stream=sys.stderr, format="%(levelname)s %(name)s %(message)s"
    )


def _renderer(log_format: str) -> Processor:
    if log_format == "json":
        return structlog.processors.JSONRenderer(lambda line, **_: orjson.dumps(line, default=str).decode())
    if sys.stderr.isatty():
        return structlog.dev.ConsoleRenderer(sort_keys=False, exception_formatter=structlog.dev.plain_traceback)
    return logfmt


FIRST = ("timestamp", "level", "event")
"""What each line begins with."""

_special = re.compile(r'[ ="\n]').search
_quoted = re.compile(r'[ ="]').search


def logfmt(_logger: Any, _method: str, line: EventDict) -> str:
    """`key=value` as structlog's own renderer writes it, which looks at each letter of each key."""
    first = {key: line.pop(key, None) for key in FIRST}
    return " ".join([f"{key}={_text(value)}" for key, value in (first | dict(line)).items()])


def _text(value: object) -> str:
    if isinstance(value, str) and not _special(value):  # as nearly all are
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _quoted(text):
        text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text.replace("\n", "\\n")

"""Exceptions of the package. Each explains the problem in one sentence and, if possible, how to fix it."""

from ._native import MonitorError, OrtscopeError, RecordingError


class ETWError(OrtscopeError):
    """Event Tracing for Windows cannot be used here."""


class ETWSessionError(ETWError):
    """A session could not be started."""


class ETWAccessDeniedError(ETWError):
    """The rights are missing."""


class ETWProviderError(ETWError):
    """A provider could not be enabled."""


__all__ = [
    "ETWAccessDeniedError",
    "ETWError",
    "ETWProviderError",
    "ETWSessionError",
    "MonitorError",
    "OrtscopeError",
    "RecordingError",
]

"""The names of marimo that the course uses although they are not public.

No other module imports `marimo._…`. A name is imported when somebody asks for it: a command that
needs one does not load marimo's server. `missing_names` says what a release of marimo has moved.
"""

import importlib
from typing import Any

_EDIT_SERVER = "https://github.com/marimo-team/marimo/issues/7803"
_CONVERSION = "https://github.com/marimo-team/marimo/issues/6458"

PRIVATE = {  # name: module, what it is for, and the issue that asks for a public way
    "MarimoConvert": ("_convert.converters", "a lesson's text as cells, and back", _CONVERSION),
    "CellDef": ("_schemas.serialization", "a cell that was written in Jupyter", _CONVERSION),
    "safe_get_context": ("_runtime.context", "the source of a running notebook's cells", None),
    "MIDDLEWARE_REGISTRY": ("_server.registry", "middleware of the edit server", _EDIT_SERVER),
    "LIFESPAN_REGISTRY": ("_server.registry", "the sessions of the edit server", _EDIT_SERVER),
    "BannerNotification": ("_messaging.notification", "a sentence above an open page", None),
    "AppFileManager": ("_server.workspace._base", "reads and saves an open lesson", None),
    "FileChangeCoordinator": ("_server.session_manager", "shows a changed file in its page", None),
    "get_context": ("_session.managers.kernel", "how the process of a kernel starts", None),
}


def __getattr__(name: str) -> Any:
    """Import one of the names. Raises: AttributeError, ImportError."""
    if name not in PRIVATE:
        raise AttributeError(f"{name} is not one of the names in course.marimo_internals.PRIVATE")
    return getattr(_module(name), name)


def substitute(name: str, value: Any) -> None:
    """Have marimo use `value` where it would use one of the names."""
    setattr(_module(name), name, value)


def missing_names() -> list[str]:
    """Return the names that the installed marimo lacks, each with what the course needs it for."""
    return [
        f"marimo.{module}.{name}: {purpose}"
        for name, (module, purpose, _) in PRIVATE.items()
        if not _has(name)
    ]


def _has(name: str) -> bool:
    try:
        return hasattr(_module(name), name)
    except ImportError:
        return False


def _module(name: str) -> Any:
    return importlib.import_module(f"marimo.{PRIVATE[name][0]}")

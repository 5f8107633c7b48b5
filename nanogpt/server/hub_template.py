"""The chat template of a model from the hub: a Jinja program in its folder, run in a sandbox.

Source: transformers' `utils/chat_template_utils.py`, for what a template may call.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import jinja2
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment

if TYPE_CHECKING:
    from nanogpt.server.openai_bodies import ChatMessage


class HubTemplate:
    """How a conversation becomes a prompt; `special` are the names of tokens that it may write.

    Its answer ends with an end token, so there are no stop strings.
    Raises: ValueError for a template that is no Jinja.
    """

    stops = ()

    def __init__(self, source: str, special: Mapping[str, str]) -> None:
        self._special = special
        try:
            self._template = environment().from_string(source, globals=CALLED)
        except jinja2.TemplateError as error:
            raise ValueError(f"the chat template cannot be read: {error}") from None

    def prompt(self, messages: "Sequence[ChatMessage]", settings: Mapping[str, Any]) -> str:
        """The conversation as a prompt. `settings` are the request's own variables.

        Raises: ValueError for a conversation that the template refuses or fails at.
        """
        said = {"enable_thinking": False, **settings, **self._special}
        said |= {"messages": [_plain(each) for each in messages], "add_generation_prompt": True}
        try:
            return self._template.render(said)
        except Exception as error:  # a template can fail in any way
            raise ValueError(f"the chat template fails at these messages: {error}") from None


@lru_cache
def environment() -> ImmutableSandboxedEnvironment:
    """The sandbox of templates: no attribute of Python's own, nothing that changes a value."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = lambda value: msgspec.json.encode(value).decode()
    return made


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


CALLED = {"raise_exception": _refuse, "strftime_now": lambda form: datetime.now().strftime(form)}


def _plain(message: "ChatMessage") -> dict[str, str]:
    """A message as templates know it: text only, and developers are the system."""
    content = message.content or ""
    if isinstance(content, list):
        content = "".join(part.text for part in content)
    return {"role": "system" if message.role == "developer" else message.role, "content": content}

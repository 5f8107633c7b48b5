"""How a conversation becomes a prompt of a model that has read plays, and where its answer ends.

    system, developer     their text, as a stage direction
    user                  USER:            (or the message's `name`, in capitals)
    assistant             ASSISTANT:

Each with its text in the next line and an empty line after it, as the plays have their speeches.
The prompt ends with "ASSISTANT:" and a new line; the answer, with the next empty line.
"""

from collections.abc import Sequence
from typing import NamedTuple

ANSWER = "ASSISTANT:\n"
END_OF_TURN = "\n\n"


class Message(NamedTuple):
    """One message of a conversation."""

    role: str
    content: str
    name: str | None = None


def chat_prompt(messages: Sequence[Message]) -> str:
    """The conversation as a prompt.

    >>> chat_prompt([Message("system", "A room."), Message("user", "Who is there?")])
    'A room.\\n\\nUSER:\\nWho is there?\\n\\nASSISTANT:\\n'
    """
    return "".join(map(_speech, messages)) + ANSWER


def _speech(message: Message) -> str:
    if message.role in ("system", "developer"):
        return f"{message.content}{END_OF_TURN}"
    speaker = (message.name or message.role).upper()
    return f"{speaker}:\n{message.content}{END_OF_TURN}"

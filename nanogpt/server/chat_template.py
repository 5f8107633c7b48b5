"""How a conversation becomes a prompt, and where its answer ends.

                          a scene (`SCENE`)                 in a model's own words (`PLAIN`)
    system, developer     their text, a stage direction     their text
    user                  USER:                             User:
    assistant             ASSISTANT:                        Assistant:

A message's `name` stands in its role's place. Each has its text in the next line and an empty line
after it, as the plays have their speeches, and the prompt ends with the assistant's line. In a
scene the answer ends with the next empty line; else where the user's or the assistant's line would
come next.
"""

from collections.abc import Sequence
from typing import NamedTuple

END_OF_TURN = "\n\n"


class Message(NamedTuple):
    """One message of a conversation."""

    role: str
    content: str
    name: str | None = None


class ChatTemplate(NamedTuple):
    """The strings that end an answer, and whether speakers are in capitals."""

    stops: tuple[str, ...]
    in_capitals: bool

    def prompt(self, messages: Sequence[Message]) -> str:
        """The conversation as a prompt.

        >>> SCENE.prompt([Message("system", "A room."), Message("user", "Who is there?")])
        'A room.\\n\\nUSER:\\nWho is there?\\n\\nASSISTANT:\\n'
        """
        return "".join(map(self._speech, messages)) + self._line("Assistant")

    def _speech(self, message: Message) -> str:
        said = f"{message.content}{END_OF_TURN}"
        if message.role in ("system", "developer"):
            return said
        return self._line(message.name or message.role.capitalize()) + said

    def _line(self, speaker: str) -> str:
        return f"{speaker.upper() if self.in_capitals else speaker}:\n"


SCENE = ChatTemplate((END_OF_TURN,), in_capitals=True)
"""For the character model, which has read plays and nothing else."""
PLAIN = ChatTemplate((f"{END_OF_TURN}User:", f"{END_OF_TURN}Assistant:"), in_capitals=False)

"""jsonschema without an import that compiles grammars for a second and a half.

Where JupyterLab is installed, jsonschema imports rfc3987_syntax, for formats of addresses that no
schema of a notebook's, or of Jupyter's, asks for. It goes without where that cannot be imported.
"""

import sys


def leave_out_address_grammars() -> None:
    """For this process, before whatever imports jsonschema."""
    sys.modules.setdefault("rfc3987_syntax", None)  # pyright: ignore[reportArgumentType]

"""What instructors run: plug-ins that let nbgrader grade whatever is handed in."""

import sys

# jsonschema, which nbformat imports, would build a grammar from it: a second of every start
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

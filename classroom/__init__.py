"""What instructors run: plug-ins that let nbgrader grade whatever is handed in."""

import os
import sys
from pathlib import Path

# jsonschema, which nbformat imports, would build a grammar from it: a second of every start
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
# nbgrader calls alembic, which stands beside Python, by name: also where nothing was activated
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

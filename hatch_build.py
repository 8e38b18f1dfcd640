"""What the wheel holds beside its sources: compiled messages, the address of the book."""

import os
import runpy
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Messages(BuildHookInterface):
    """A hook of Hatch; an editable installation reads the catalogues as they are."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Add `normkit/locale/<language>.mo` for each catalogue, and where the book is."""
        if version == "editable":
            return
        root = Path(self.root)
        compiled = runpy.run_path(str(root / "normkit/messages.py"))["compiled"]
        self.folder = tempfile.TemporaryDirectory()
        files = {
            f"normkit/locale/{source.parent.name}.mo": compiled(source)
            for source in root.glob("locale/*/normkit.po")
        }
        if book := os.environ.get("NORMKIT_BOOK"):
            files["normkit/book.txt"] = book.encode()
        for number, (name, content) in enumerate(files.items()):
            made = Path(self.folder.name, str(number))
            made.write_bytes(content)
            build_data["force_include"][str(made)] = name

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        """Remove what the wheel now holds."""
        if version != "editable":
            self.folder.cleanup()

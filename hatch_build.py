"""Compiles the messages of normkit into its wheel, where the standard library reads them."""

import runpy
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileMessages(BuildHookInterface):
    """A hook of Hatch; an editable installation reads the catalogues as they are."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Add `normkit/locale/<language>.mo` for each catalogue."""
        if version == "editable":
            return
        root = Path(self.root)
        compiled = runpy.run_path(str(root / "normkit/messages.py"))["compiled"]
        self.folder = tempfile.TemporaryDirectory()
        for source in root.glob("locale/*/normkit.po"):
            language = source.parent.name
            target = Path(self.folder.name, f"{language}.mo")
            target.write_bytes(compiled(source))
            build_data["force_include"][str(target)] = f"normkit/locale/{language}.mo"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        """Remove what the wheel now holds."""
        if version != "editable":
            self.folder.cleanup()

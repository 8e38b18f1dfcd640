"""Every mistake in every program, with its diff, sorted: run to write it anew."""

from pathlib import Path

from normkit.tutor.exposing import diff
from normkit.tutor.mistakes import mistakes_of
from normkit.tutor.tasks import every_task

TABLE = Path(__file__).with_name("table.diff")


def table() -> str:
    """The table as text: what a mistake changes in what a program calls stands there."""
    programs = sorted({program for task in every_task().values() for program in task.programs})
    rows = [
        f"{program} {mistake.key}\n{diff(program, mistake, way)}".rstrip()
        for program in programs
        for mistake in sorted(mistakes_of(program), key=lambda mistake: mistake.key)
        for way in range(mistake.number_of_ways(program))
    ]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")

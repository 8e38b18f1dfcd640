"""Grades a class: `python -m classroom.grade [ASSIGNMENT …]`, or `make grade ASSIGNMENT=…`.

What is new or has changed is graded, each submission in the sandbox, on all cores.
"""

import argparse
import os
import sys
from contextlib import suppress

from classroom.sandbox import SandboxError, begun


def main() -> None:
    """Grade what the command line asks for."""
    parser = argparse.ArgumentParser(prog="classroom.grade", description=__doc__)
    parser.add_argument("assignments", nargs="*", metavar="ASSIGNMENT", help="by default all")
    parser.add_argument("--student", action="append", default=[], help="only this one")
    parser.add_argument("--force", action="store_true", help="grade again what has not changed")
    parser.add_argument("--workers", type=int, default=0, help="by default one for each core")
    parser.add_argument("--timeout", type=float, default=0, help="seconds for a cell")
    parser.add_argument("--tasks", default="", help="what counts, by its names")
    parser.add_argument("--dask", metavar="ADDRESS", help="the scheduler of a Dask cluster")
    parser.add_argument("--no-sandbox", action="store_true", help="run with your rights: unsafe")
    asked = parser.parse_args()
    sys.path.insert(0, os.getcwd())  # nbgrader_config.py may import from the course
    if os.path.exists("nbgrader_config.py") and not asked.dask:
        with suppress(SandboxError):  # which comes again when it is needed
            begun(not asked.no_sandbox)  # starts while the rest is imported
    from classroom import container, part
    from classroom.grading import cluster, grade_class

    try:
        summary = grade_class(
            asked.assignments,
            asked.student,
            asked.force,
            asked.workers,
            asked.timeout,
            False if asked.no_sandbox else None,
            cluster(asked.dask) if asked.dask else None,
            part.split(asked.tasks),
        )
    except SandboxError as error:
        if not container.engine():
            sys.exit(f"No sandbox: {error}")
        print(f"No sandbox here, but {container.engine()}: a container it is.", file=sys.stderr)
        sys.exit(container.grade(sys.argv[1:]))
    print(summary)
    sys.exit(bool(summary.failed))


if __name__ == "__main__":
    main()

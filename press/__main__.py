"""The commands of the press: `python -m press build|english|exercises|solutions|…`."""

import argparse
import sys

from press import PressError, made

COMMANDS = "build", "pdf", "bench", "english", "exercises", "solutions", "messages", "check"


def main() -> int:
    """Run a command; what stops it is said in words, not in a traceback."""
    arguments = argparse.ArgumentParser(prog="press", description=__doc__)
    arguments.add_argument("command", choices=COMMANDS)
    command = arguments.parse_args().command
    if command == "build" and made.is_current():
        print(f"Nothing has changed.\n{made.WHERE}")
        return 0
    from press import commands  # which takes seconds

    try:
        getattr(commands, command)()
    except PressError as error:
        print(f"{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

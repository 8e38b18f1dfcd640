"""The press: runs the pages, translates them and typesets the site and the exercises."""


class PressError(Exception):
    """What stops the press: the message names the page, the line and what to do."""

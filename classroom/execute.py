"""Runs a submission to its end, even when it ends its kernel."""

from typing import Any

from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute


class ExecuteToTheEnd(Execute):
    """nbgrader's, but where a cell ends the kernel (``exit()``), it and the cells after it fail.

    nbgrader would drop the whole submission, and the points earned before that cell.
    """

    ended = False

    def preprocess(self, nb: NotebookNode, resources: dict, **kwargs: Any) -> tuple:
        self.ended = False
        return super().preprocess(nb, resources, **kwargs)

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple:
        if not self.ended:
            try:
                return super().preprocess_cell(cell, resources, index)
            except (DeadKernelError, CellTimeoutError):  # gone, or deaf to being interrupted
                self.ended = True
                self.log.warning("%s ended its kernel", resources["nbgrader"]["student"])
        if cell.cell_type == "code":
            text = "The kernel was ended, by this cell or by one before it."
            cell.outputs = [
                new_output("error", ename="DeadKernelError", evalue=text, traceback=[text])
            ]
        return cell, resources

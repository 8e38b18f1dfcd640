"""Saves the points: a test loses them by an error, and by nothing else."""

from copy import copy

from nbformat import NotebookNode
from nbgrader.preprocessors import SaveAutoGrades


class OnlyErrorsCost(SaveAutoGrades):
    """nbgrader's, but warnings, logging and prints, on stderr too, cost no points.

    nbgrader would give 0 points to a test that says anything on stderr, and take a value that a
    test displays for the points, which no assignment of this course does.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple:
        judged = copy(cell)
        if cell.cell_type == "code":
            judged.outputs = [out for out in cell.outputs if out.output_type == "error"]
        super().preprocess_cell(judged, resources, index)
        return cell, resources

"""Grades a course: what each submission is given, who grades it, what is written, and when.

Killed at any moment and started again, it goes on where it was: a graded notebook is written last,
and says of which submission it is. One process writes the gradebook.
"""

import ctypes
import json
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import takewhile
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import nbformat
from filelock import FileLock, Timeout
from nbgrader.api import (
    Grade,
    Gradebook,
    MissingEntry,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import AssignLatePenalties, LimitOutput
from nbgrader.utils import parse_utc
from sqlalchemy.exc import SAWarning
from tqdm import tqdm
from traitlets.config import Config, PyFileConfigLoader

from classroom import part
from classroom.judged import JudgedOutside, expected, grade
from classroom.part import Part
from classroom.points import WrittenAnswers
from classroom.sandbox import PLACE, SandboxError, begun, sandbox
from classroom.scores import Worth, save, worths
from classroom.secret import secret
from classroom.submissions import CONTROLS, Master, master_cells, mend, parsed, refusal, taken
from classroom.verdicts import KEY

WRITING = ".being-written"  # in autograded/: what a killed run was writing
TRIES = 2  # for a submission whose worker dies


@dataclass(frozen=True)
class Job:
    """A submission to grade: plain data, which travels to any worker."""

    assignment: str
    student: str
    notebook: str
    data: bytes
    reason: str  # why it is graded as empty
    masters: Sequence[Master]
    kernelspec: str | None
    secret: bytes
    seconds: float
    confined: bool
    fingerprint: str
    came: str = ""  # when it was handed in, as its timestamp.txt says


@dataclass(frozen=True)
class Graded:
    """What a worker made of a submission: the notebook as text, what its cells are worth."""

    text: str
    worths: list[Worth]
    remarks: list[str]


@dataclass
class Summary:
    """What a run did, and what needs a look."""

    graded: int = 0
    unchanged: int = 0
    told: dict[str, list[str]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    confined: bool = True
    parts: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.graded} graded, {self.unchanged} unchanged.", *self.parts]
        if not self.confined:
            lines.append("NO SANDBOX: students' code ran with your rights.")
        if self.told:
            lines += ["", "Needs a look:"]
            lines += [f"  {who}: {'; '.join(what)}" for who, what in sorted(self.told.items())]
        if self.failed:
            lines += ["", f"NOT GRADED: {', '.join(sorted(self.failed))}. Run the command again."]
        return "\n".join(lines)


# --- In a worker ------------------------------------------------------------------------------


def graded(job: Job) -> Graded:
    """Grade a submission: read, mend, run in the sandbox, judge."""
    nb, remarks = (nbformat.v4.new_notebook(), [job.reason]) if job.reason else parsed(job.data)
    repairs = mend(nb, list(job.masters))
    if job.kernelspec:
        nb.metadata.kernelspec = json.loads(job.kernelspec)
    grade(nb, job.assignment, job.secret, sandbox(job.confined), job.seconds)
    nb, _ = LimitOutput().preprocess(nb, {})
    nb.metadata[KEY]["submission"] = job.fingerprint
    remarks = [*(remarks or repairs), *nb.metadata[KEY]["flags"]]
    nb.metadata[KEY]["flags"] = remarks
    return Graded(nbformat.writes(nb), worths(nb), remarks)


def begin() -> None:
    """Start a worker: it ends with its parent, and leaves interrupts to it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# --- In the one process that reads submissions and writes grades ------------------------------


class Class:
    """A course whose submissions are graded, in the current folder."""

    def __init__(self, config: Config, force: bool = False) -> None:
        self.course = CourseDirectory(config=config)
        self.settings = JudgedOutside(config=config)
        self.written = WrittenAnswers(config=config)
        self.root, self.force = Path(self.course.root), force
        self.gradebook = Gradebook(self.course.db_url, self.course.course_id)
        self.late = AssignLatePenalties(config=config)
        self.lost: dict[tuple[str, str], str] = {}
        self.summary = Summary(confined=self.settings.sandbox != "none")

    def assignments(self) -> list[str]:
        return sorted(assignment.name for assignment in self.gradebook.assignments)

    def students(self, assignment: str, only: Sequence[str]) -> Iterator[str]:
        """Who has handed something in, under a name that can be one."""
        pattern = self.course.format_path(self.course.submitted_directory, "*", assignment)
        for folder in sorted(self.root.glob(os.path.relpath(pattern, self.root))):
            student = folder.parent.name
            if CONTROLS.search(student):
                self.tell(ascii(student), "refused: a control character in the name of its folder")
            elif not only or student in only:
                yield student

    def notebooks(self, assignment: str) -> list[Notebook]:
        try:
            return self.gradebook.find_assignment(assignment).notebooks
        except MissingEntry:
            raise SystemExit(
                f"The gradebook knows no {assignment}: nbgrader generate_assignment {assignment}"
            ) from None

    def take(self, assignment: str, tasks: Sequence[str] = ()) -> None:
        """Let these tasks alone count, if there are any; say what counts, unless it is all."""
        notebooks = self.notebooks(assignment)
        kinds = {cell.name: cell.cell_type for n in notebooks for cell in n.grade_cells}
        texts = {cell.name: cell.source or "" for n in notebooks for cell in n.source_cells}
        of = {name: texts.get(name, "") for name in kinds}
        try:
            cells = part.choice(assignment, tasks, of) if tasks else part.chosen(assignment)
        except ValueError as unknown:
            raise SystemExit(str(unknown)) from None
        counted = Part(cells, self.written.written == "on")
        left = [part.short(name) for name, kind in kinds.items() if counted.counts(name, kind)]
        if kinds and not left:
            raise SystemExit(f"Nothing of {assignment} would count: TASKS={part.ALL} takes it all.")
        part.keep(assignment, cells)
        if cells:
            count = f"{assignment}: only {', '.join(left)} count"
            self.summary.parts.append(f"{count}; TASKS={part.ALL} takes it all again.")

    def jobs(self, assignment: str, only: Sequence[str] = ()) -> Iterator[Job]:
        """What is new or has changed."""
        known = [(n.name, master_cells(n), n.kernelspec) for n in self.notebooks(assignment)]
        held = self.held(assignment)
        for student in self.students(assignment, only):
            for name, masters, kernelspec in known:
                job = self.job(assignment, student, name, masters, kernelspec)
                there = (student, name) in held
                if self.force or not there or job.fingerprint != self.fingerprint(job):
                    yield job
                else:
                    self.summary.unchanged += 1

    def held(self, assignment: str) -> set[tuple[str, str]]:
        """Whose points this gradebook has, by student and notebook: it may be a new one."""
        found = (
            self.gradebook.db.query(SubmittedAssignment.student_id, Notebook.name)
            .join(SubmittedNotebook, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
            .join(Notebook, Notebook.id == SubmittedNotebook.notebook_id)
            .join(Grade, Grade.notebook_id == SubmittedNotebook.id)
            .filter(Notebook.assignment.has(name=assignment), Grade.auto_score.is_not(None))
        )
        return {(student, name) for student, name in found.distinct()}

    def job(
        self, assignment: str, student: str, name: str, masters: list[Master], kernelspec: Any
    ) -> Job:
        folder = Path(self.path(self.course.submitted_directory, student, assignment))
        data, reason = taken(folder / f"{name}.ipynb")
        others = sorted(ascii(p.name)[1:-1] for p in folder.glob("*") if p.suffix != ".ipynb")
        if others := [other for other in others if other != "timestamp.txt"]:
            self.tell(f"{student}, {assignment}", f"ignored beside it: {', '.join(others[:5])}")
        came = self.came(folder)
        of = secret(self.root)
        facts = [data, reason.encode(), came.encode(), of, repr(masters).encode()]
        digest = sha256(b"\0".join(sha256(fact).digest() for fact in facts)).hexdigest()
        seconds, confined = self.settings.seconds, self.settings.sandbox != "none"
        return Job(
            *(assignment, student, name, data, reason, masters, kernelspec, of, seconds, confined),
            *(digest, came),
        )

    def path(self, step: str, student: str, assignment: str) -> str:
        return self.course.format_path(step, student, assignment)

    def came(self, folder: Path) -> str:
        """When a submission was handed in, if its file says so and is one."""
        path = folder / "timestamp.txt"
        with suppress(OSError, ValueError):
            text = "" if refusal(path) else path.read_text("utf-8")[:100].strip()
            return text if text and parse_utc(text) else ""
        return ""

    def fingerprint(self, job: Job) -> str:
        """Of which submission the graded notebook is; nothing where there is none."""
        with suppress(OSError, ValueError, AttributeError):
            text = self.target(job).read_text("utf-8")
            return str(json.loads(text)["metadata"].get(KEY, {}).get("submission", ""))
        return ""

    def target(self, job: Job) -> Path:
        folder = self.path(self.course.autograded_directory, job.student, job.assignment)
        return Path(folder, f"{job.notebook}.ipynb")

    def keep(self, job: Job, result: Graded) -> None:
        """Write what came: the gradebook first, the notebook that says that it is done last."""
        gradebook, when = self.gradebook, {"timestamp": parse_utc(job.came)} if job.came else {}
        gradebook.update_or_create_student(job.student)
        gradebook.update_or_create_submission(job.assignment, job.student, **when)
        names = job.notebook, job.assignment, job.student
        save(gradebook, gradebook.find_submission_notebook(*names), result.worths)
        gradebook.db.commit()
        if gradebook.find_assignment(job.assignment).duedate:
            known = zip(("notebook", "assignment", "student"), names, strict=True)
            of = {"nbgrader": {**dict(known), "db_url": self.course.db_url}}
            self.late.preprocess(nbformat.v4.new_notebook(), of)
        target = self.target(job)
        target.parent.mkdir(parents=True, exist_ok=True)
        if job.came:
            self.write(target.with_name("timestamp.txt"), job.came)
        self.write(target, result.text)
        self.summary.graded += 1
        for remark in result.remarks:
            self.tell(f"{job.student}, {job.assignment}", remark)

    def write(self, path: Path, text: str) -> None:
        """Write a file, whole or not at all."""
        draft = Path(self.path(self.course.autograded_directory, ".", "."), WRITING)
        draft.unlink(missing_ok=True)
        with draft.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(0o444)
        draft.replace(path)

    def tell(self, who: str, what: str) -> None:
        self.summary.told.setdefault(who, []).append(what)


def run(of: Class, jobs: list[Job], workers: Callable[[], Executor]) -> None:
    """Grade them, and write what comes as it comes.

    Whoever is lost with a worker is tried once more, at last alone: one may be what kills it.
    """
    with tqdm(total=len(jobs), unit="submission", disable=not jobs) as bar:
        for _ in range(TRIES):
            jobs = list(finished(of, jobs, workers, bar)) if jobs else []
        jobs = [lost for job in jobs for lost in finished(of, [job], workers, bar)]
    for job in jobs:
        reason = of.lost[job.student, job.assignment]
        of.summary.failed.append(f"{job.student}, {job.assignment} ({reason})")


def finished(
    of: Class, jobs: list[Job], workers: Callable[[], Executor], bar: Any
) -> Iterator[Job]:
    """Yield those that were lost with their workers."""
    pool = workers()
    futures: dict[Future, Job] = {}
    try:
        futures |= {pool.submit(graded, job): job for job in jobs}
        for future in as_completed(futures):
            job = futures.pop(future)
            try:
                result = future.result()
            except SandboxError:
                raise
            except Exception as lost:  # its worker died, or worse
                of.lost[job.student, job.assignment] = f"{type(lost).__name__}: {lost}"[:200]
                yield job
            else:
                of.keep(job, result)
                bar.set_postfix_str(job.student, refresh=False)
                bar.update()
    finally:
        for future in futures:  # those that are left, after an error
            future.cancel()
        pool.shutdown(wait=not futures)


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Let no other run write the gradebook meanwhile."""
    place = root / PLACE
    place.mkdir(exist_ok=True)
    try:
        with FileLock(place / "lock", timeout=0):
            for left in place.glob("normkit-*"):  # by a run that was killed
                if not left.name.startswith(f"normkit-{os.getpid()}-"):
                    shutil.rmtree(left, ignore_errors=True)
            yield
    except Timeout:
        raise SystemExit("Another run is grading this course: wait for its end.") from None


def local(count: int) -> Executor:
    """Processes of this machine, which share what this one has imported, and its sandbox."""
    return ProcessPoolExecutor(count, get_context("fork"), initializer=begin)


def grade_class(
    assignments: Sequence[str] = (),
    students: Sequence[str] = (),
    force: bool = False,
    count: int = 0,
    seconds: float = 0,
    confined: bool | None = None,
    workers: Callable[[], Executor] | None = None,
    tasks: Sequence[str] = (),
) -> Summary:
    """Grade the course in this folder; return what was done. tasks: what counts from now on."""
    if tasks and len(assignments) != 1:
        raise SystemExit("TASKS needs one assignment: make grade ASSIGNMENT=layer_norm TASKS=…")
    config = PyFileConfigLoader("nbgrader_config.py", os.getcwd()).load_config()
    if seconds:
        config.JudgedOutside.seconds = seconds
    if confined is False:
        config.JudgedOutside.sandbox = "none"
    of = Class(config, force)
    warnings.filterwarnings("ignore", category=SAWarning)  # of nbgrader's own code
    with alone(of.root), of.gradebook:
        if not of.summary.confined:
            print("NO SANDBOX: students' code runs with your rights.", file=sys.stderr)
        names = assignments or of.assignments()
        for name in names:
            of.take(name, tasks)
        jobs = [job for name in names for job in of.jobs(name, students)]
        if jobs and not workers:
            warm_up(of, jobs)
        try:
            run(of, jobs, workers or (lambda: local(min(count or cores(), len(jobs)))))
        finally:
            if sandbox.cache_info().currsize:  # its folder goes with the run
                sandbox(of.summary.confined).close()
                sandbox.cache_clear()
    return of.summary


def warm_up(of: Class, jobs: Sequence[Job]) -> None:
    """Start the sandbox; meanwhile, compute here once what the workers would compute each."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # there is a process for each core
    box = begun(of.summary.confined)
    with suppress(ImportError):
        import torch

        torch.set_num_threads(1)
    assignments = dict.fromkeys(job.assignment for job in jobs)
    for name in assignments:
        box.see(name)
    every = (known for name in assignments for known in expected(name, jobs[0].secret))
    for trial in takewhile(lambda _: box.starts(), every):
        len(trial.wrong)  # is kept
    box.wait()


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cluster(address: str) -> Callable[[], Executor]:
    """The workers of a Dask cluster."""
    from dask.distributed import Client

    client = Client(address)
    return lambda: client.get_executor(pure=False, retries=TRIES)

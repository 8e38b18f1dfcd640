"""Settings of nbgrader: its ordinary commands work from this folder (see book/instructors.md)."""

c = get_config()  # noqa: F821 - nbgrader provides it

# nbgrader's default is a course that its gradebook lacks; of all databases only SQLite allows that
c.CourseDirectory.course_id = "default_course"

# The assignments are built by `make`. One gradebook serves all languages: they share grade ids
# and tests, so it knows the English one.
c.CourseDirectory.source_directory = "_build/nbgrader/en/source"
c.CourseDirectory.release_directory = "_build/nbgrader/release"  # `make` alone writes exercises/
c.GenerateAssignment.force = True

# An untouched answer must look the same in every language, or it would wait for a grade.
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError"}
c.ClearSolutions.text_stub = "✎"

# Whatever was handed in is read, mended where it can be, and graded.
c.Autograde.exporter_class = "classroom.submissions.SubmissionReader"
c.Autograde.autograde_preprocessors = [
    "classroom.judged.JudgedOutside",
    "nbgrader.preprocessors.LimitOutput",
    "classroom.scores.VerdictsScore",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]
# The page that students get back: in their language, without hidden tests, without the network.
c.GenerateFeedback.exporter_class = "classroom.feedback.FeedbackPage"
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "classroom.feedback.ForStudents",
]
# Formgrader, which would run the scripts in a student's Markdown
c.HTMLExporter.filters = {"markdown2html": "classroom.feedback.harmless"}
# "none" where there is neither bubblewrap nor a container: students' code runs with your rights
c.JudgedOutside.sandbox = "bubblewrap"
c.JudgedOutside.seconds = 60  # for a cell, and for an answer on its probes
c.NbGrader.logfile = ".nbgrader.log"

# Written answers: "off" leaves them out, and the code counts for the whole. Answers in a language
# that is not accepted are set apart (book/instructors.md).
c.WrittenAnswers.written = "on"
c.WrittenAnswers.languages = ["en", "fr", "zh"]

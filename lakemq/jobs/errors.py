"""What can go wrong between the jobs, the log and the lake."""

from __future__ import annotations

from lakemq.model.errors import InvalidSql, LakemqError


class BrokerUnavailable(LakemqError):
    """The gateway did not answer within the time for retries."""

    code = "broker_unavailable"


class InvalidOption(LakemqError):
    """An option of `format("lakemq")` is unknown or malformed. The detail names it."""

    code = "invalid_option"


class LakeOutOfStep(LakemqError):
    """A table and the log do not fit together: going on would lose messages or double them."""

    code = "lake_out_of_step"


class LakeTaken(LakemqError):
    """Another driver writes the lake in this one's place. What was not committed is not; a new run can't mend it."""

    code = "lake_taken"
    exit_code = 79
    """Of the jobs' process: who starts it again takes the lake back."""


class LakeNotOnDisk(LakemqError):
    """What was committed to the lake could not be brought to disk; it is written again."""

    code = "lake_not_on_disk"


class LakeNotFound(LakemqError):
    """There is no lake in the folder, or not the table."""

    code = "lake_not_found"


class JavaNotFound(LakemqError):
    """There is no Java that Spark can use. The detail says what to install."""

    code = "java_not_found"


class SparkNotStarted(LakemqError):
    """Java began, and ended before Spark was up. What it said about it is on stderr."""

    code = "spark_not_started"


class JarsUnavailable(LakemqError):
    """The jars of Delta can't be had, or are not those that are pinned. The detail says why."""

    code = "jars_unavailable"


class JarsNotGot(JarsUnavailable):
    """The jars could not be got, which says nothing against what is there: a later try may get them."""


class InvalidStatement(InvalidSql):
    """Spark can't understand or run the SQL statement."""

    code = "invalid_statement"


class InvalidNotebook(LakemqError):
    """The file is no notebook that can run here. The detail names the line."""

    code = "invalid_notebook"


class NotebookFailed(LakemqError):
    """A cell of the notebook raised an error, or took too long. The detail names the cell."""

    code = "notebook_failed"


class NotServed(InvalidSql):
    """The statement is understood, and has something in it, or asks for something, that isn't on the list."""

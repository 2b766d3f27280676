"""Measures the pipeline on labelled material: single texts, whole documents, and conversations as clients send them.

A unit (`Row`) is an *attack* if it carries one of the four attack labels, *benign* if it says so; rows with PII alone
count for `pii_detected` and nothing else. "Caught" and "refused" mean that the recommended action is `block`. What
could not be scanned is counted apart: it is neither a catch nor a false positive, and rates are shares of what was
scanned.
"""

from sidecar.evaluation.outcomes import Outcome, Scanner
from sidecar.evaluation.report import report
from sidecar.evaluation.rows import ATTACKS, Row, read_rows
from sidecar.evaluation.shares import Share, auc, quantiles

__all__ = ["ATTACKS", "Outcome", "Row", "Scanner", "Share", "auc", "quantiles", "read_rows", "report"]

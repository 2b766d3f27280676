"""Measures the scanner on labelled data: single texts, whole documents, and conversations as clients send them.

A unit (`Row`) is an *attack* if it has one of the four attack labels, *benign* if it is marked so; rows with PII alone
count for `pii_detected` and nothing else. "Caught" and "refused" mean that the recommended action is `block`. Units
that could not be scanned are counted apart: they are neither catches nor false positives, and rates are shares of the
scanned units.
"""

from sidecar.evaluation.outcomes import Outcome, UnitScanner
from sidecar.evaluation.report import report
from sidecar.evaluation.rows import ATTACKS, Row, read_rows
from sidecar.evaluation.shares import Share, auc, quantiles

__all__ = ["ATTACKS", "Outcome", "Row", "Share", "UnitScanner", "auc", "quantiles", "read_rows", "report"]

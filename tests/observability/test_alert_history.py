"""Twin of sidecar/observability/alert_history.py."""

from __future__ import annotations

from sidecar.observability.alert_history import MAX_ALERTS, SentAlert, newest, problem_of


def test_the_newest_alerts_of_all_processes_come_first() -> None:
    """At most so many, by their time."""
    first = [SentAlert(float(n), "degraded", "firing", "sent") for n in range(0, 100, 2)]
    second = [SentAlert(float(n), "degraded", "firing", "sent") for n in range(1, 100, 2)]
    assert [alert.at for alert in newest(first, second)] == [float(n) for n in range(99, 99 - MAX_ALERTS, -1)]
    assert newest() == []


def test_the_newest_outcome_says_whether_the_receiver_works() -> None:
    """An earlier failure counts no more once a message was sent."""
    failed = SentAlert(1.0, "block_spike", "firing", "failed", reason="HTTP 503")
    dropped = SentAlert(2.0, "degraded", "firing", "dropped")
    assert problem_of([failed]) == "the newest alert (block_spike) could not be sent: HTTP 503"
    assert problem_of([dropped, failed]) == "the newest alert (degraded) could not be sent: dropped"
    assert problem_of([SentAlert(3.0, "test", "firing", "sent"), dropped]) is None
    assert problem_of([]) is None

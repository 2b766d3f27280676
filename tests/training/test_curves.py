"""Twin of training/curves.py: the pictures are well-formed and show the points."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from training import curves

SVG = "{http://www.w3.org/2000/svg}"


def test_recall_runs_from_left_to_right_and_up() -> None:
    """A tenth of a percent is the left edge, everything the right one; full recall is the upper edge."""
    tree = ET.fromstring(curves.recall([(0.001, 0.0), (0.01, 0.5), (1.0, 1.0)]))
    points = [tuple(map(float, pair.split(","))) for pair in tree.findall(f"{SVG}polyline")[0].attrib["points"].split()]
    assert points[0] == (curves.EDGE, curves.EDGE + curves.SIZE)
    assert points[2] == (curves.EDGE + curves.SIZE, curves.EDGE)
    assert points[0][0] < points[1][0] < points[2][0]


def test_calibration_shows_a_dot_a_bin() -> None:
    """Each bin is a dot, larger for more rows."""
    tree = ET.fromstring(curves.reliability([(0.05, 0.1, 1000), (0.95, 0.9, 10)]))
    sizes = [float(dot.attrib["r"]) for dot in tree.findall(f"{SVG}circle")]
    assert len(sizes) == 2
    assert sizes[0] > sizes[1]

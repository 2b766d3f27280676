"""Twin of sidecar/kubernetes/json_patch.py."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sidecar.kubernetes.json_patch import json_patch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab~/", max_size=3), inner, max_size=4),
    max_leaves=12,
)


def applied(value: Any, operations: list[dict[str, Any]]) -> Any:
    """A plain reading of RFC 6902 for the three operations there are."""
    root = {"": value}
    for operation in operations:
        place: Any = root
        *parents, last = ["", *operation["path"].split("/")[1:]] if operation["path"] else [""]
        for name in parents:
            place = place[name.replace("~1", "/").replace("~0", "~")]
        name = last.replace("~1", "/").replace("~0", "~")
        assert (name in place) is (operation["op"] != "add")
        if operation["op"] == "remove":
            del place[name]
        else:
            place[name] = operation["value"]
    return root[""]


@given(old=VALUES, new=VALUES)
def test_a_patch_makes_the_new_value_of_the_old_one(old: Any, new: Any) -> None:
    """Whatever the two are; equal values need no operation."""
    assert applied(deepcopy(old), json_patch(old, new)) == new
    assert json_patch(new, new) == []

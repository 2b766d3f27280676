"""Twin of sidecar/dashboard/grants.py."""

from __future__ import annotations

import pytest

from sidecar.config import Admin
from sidecar.dashboard.grants import Grant, grant
from sidecar.storage import Role

GROUPS = {
    "readers": {"role": "viewer"},
    "shop": {"teams": ["shop"]},
    "search": {"role": "operator", "teams": ["search"]},
    "platform": {"role": "admin"},
    "auditors": {"role": "viewer", "teams": ["*"]},
}


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], None),
        (["unknown", ""], None),
        (["shop"], None),
        (["readers"], Grant(Role.VIEWER, ())),
        (["readers", "shop"], Grant(Role.VIEWER, ("shop",))),
        (["readers", "shop", "search"], Grant(Role.OPERATOR, ("search", "shop"))),
        (["platform", "readers"], Grant(Role.ADMIN, ())),
        (["auditors", "shop"], Grant(Role.VIEWER, None)),
    ],
)
def test_the_highest_role_and_all_teams_of_the_groups_hold(groups: list[str], expected: Grant | None) -> None:
    """Without a role there is no access, and without a team nothing of any team."""
    assert grant(groups, Admin.model_validate({"groups": GROUPS})) == expected


def test_people_without_a_role_by_their_groups_get_what_the_setting_says() -> None:
    """By default nothing; teams of their groups are added."""
    chosen = Admin.model_validate({"groups": GROUPS, "unmapped": {"role": "viewer", "teams": ["common"]}})
    assert grant([], chosen) == Grant(Role.VIEWER, ("common",))
    assert grant(["shop"], chosen) == Grant(Role.VIEWER, ("common", "shop"))
    assert grant(["search"], chosen) == Grant(Role.OPERATOR, ("search",))

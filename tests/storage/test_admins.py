"""Tests of accounts and invitations on each database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sidecar.storage import Admin, ChangeResult, Invitation, Role, Store, valid_name

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(days=1)
FIRST, SECOND = b"\x01" * 32, b"\x02" * 32


async def enter(store: Store, name: str, role: Role = Role.ADMIN) -> None:
    """Create an account through an invitation."""
    digest = name.encode().ljust(32, b"\x00")
    await store.admins.invite(Invitation(digest, name, role, "test", LATER), NOW)
    assert await store.admins.accept(digest, "", f"hash of {name}", NOW)


async def test_the_first_account_comes_from_an_invitation_without_a_name(store: Store) -> None:
    """The invited person chooses the name; afterwards no such invitation creates another account."""
    for digest in (FIRST, SECOND):
        await store.admins.invite(Invitation(digest, None, Role.ADMIN, "start", LATER), NOW)
    assert not await store.admins.any()
    account = await store.admins.accept(FIRST, "ada", "hash", NOW)
    assert account == Admin("ada", Role.ADMIN, "hash", NOW)
    assert await store.admins.get("ada") == account
    assert await store.admins.any()
    assert await store.admins.accept(SECOND, "eve", "hash", NOW) is None
    await store.admins.invite(Invitation(SECOND, None, Role.ADMIN, "late", LATER), NOW)
    assert await store.admins.accept(SECOND, "eve", "hash", NOW) is None
    assert [admin.name for admin in await store.admins.list()] == ["ada"]


async def test_an_invitation_is_valid_once_until_it_expires(store: Store) -> None:
    """It is invalid once used, expired or replaced by a newer one for the same name."""
    await store.admins.invite(Invitation(FIRST, "ada", Role.VIEWER, "bob", LATER), NOW)
    assert await store.admins.invitation(FIRST, LATER) is None
    assert await store.admins.accept(FIRST, "ada", "hash", LATER) is None
    await store.admins.invite(Invitation(SECOND, "ada", Role.ADMIN, "bob", LATER), NOW)
    assert await store.admins.invitation(FIRST, NOW) is None
    assert [valid.digest for valid in await store.admins.invited(NOW)] == [SECOND]
    assert await store.admins.accept(SECOND, "", "hash", NOW)
    assert await store.admins.accept(SECOND, "", "other", NOW) is None
    invitation = await store.admins.get("ada")
    assert invitation
    assert (invitation.role, invitation.password) == (Role.ADMIN, "hash")


async def test_concurrent_uses_of_an_invitation_succeed_once(store: Store) -> None:
    """Its row is deleted once."""
    await store.admins.invite(Invitation(FIRST, "ada", Role.ADMIN, "bob", LATER), NOW)
    account = await asyncio.gather(*(store.admins.accept(FIRST, "ada", f"hash {n}", NOW) for n in range(4)))
    assert len([admin for admin in account if admin]) == 1


async def test_a_new_password_closes_all_sessions(store: Store) -> None:
    """Whether set by a reset link or on the account's page."""
    await enter(store, "ada")
    for change in (store.admins.set_password("ada", "new"), enter(store, "ada")):
        await store.sessions.open(SECOND, "ada", "::1", NOW)
        await change
        assert await store.sessions.list("ada") == []


async def test_a_reset_link_does_not_restore_a_role(store: Store) -> None:
    """A former admin stays a viewer when using a link created before the demotion."""
    await enter(store, "ada")
    await enter(store, "eve")
    await store.admins.invite(Invitation(FIRST, "eve", Role.ADMIN, "ada", LATER), NOW)
    await store.admins.set_role("eve", Role.VIEWER)
    account = await store.admins.accept(FIRST, "", "new", NOW)
    assert account
    assert account.role is Role.VIEWER
    assert await store.admins.get("eve") == account


async def test_one_admin_always_remains(store: Store) -> None:
    """The last admin can be neither demoted nor removed; viewers do not count."""
    await enter(store, "ada")
    await enter(store, "vic", Role.VIEWER)
    assert await store.admins.remove("ada") is ChangeResult.LAST_ADMIN
    assert await store.admins.set_role("ada", Role.VIEWER) is ChangeResult.LAST_ADMIN
    assert await store.admins.set_role("vic", Role.ADMIN) is ChangeResult.DONE
    changes = await asyncio.gather(store.admins.set_role("ada", Role.VIEWER), store.admins.set_role("vic", Role.VIEWER))
    assert sorted(changes) == [ChangeResult.DONE, ChangeResult.LAST_ADMIN]


async def test_removing_an_account_deletes_its_sessions_and_invitations(store: Store) -> None:
    """None of them grants access; an unknown name has its own result."""
    await enter(store, "ada")
    await enter(store, "eve")
    await store.sessions.open(FIRST, "eve", "::1", NOW)
    await store.admins.invite(Invitation(SECOND, "eve", Role.ADMIN, "eve", LATER), NOW)
    assert await store.admins.remove("eve") is ChangeResult.DONE
    assert await store.sessions.find(FIRST, used_after=NOW - timedelta(1), created_after=NOW - timedelta(1)) is None
    assert await store.admins.invitation(SECOND, NOW) is None
    assert await store.admins.remove("eve") is ChangeResult.UNKNOWN
    assert await store.admins.set_role("eve", Role.ADMIN) is ChangeResult.UNKNOWN


@pytest.mark.parametrize("name", ["", "A", "a b", "<script>", "a\x00", "é", "x" * 65, "a\n"])
def test_names_are_restricted(name: str) -> None:
    """Lower-case ASCII only, so that no account can imitate another."""
    assert not valid_name(name)
    assert valid_name("ada.l+1@example-x_y")


async def test_an_identity_has_one_account_whatever_its_name(store: Store) -> None:
    """It is made at the first login and then takes over role and teams; a name of somebody else is refused."""
    await enter(store, "ada")
    olga = Admin("oidc:olga", Role.VIEWER, "", NOW, teams=("shop",), subject="https://idp.example 1")
    assert await store.admins.sign_in(olga) == (None, olga)
    promoted = Admin("oidc:other-name", Role.ADMIN, "", LATER, teams=None, subject=olga.subject)
    before, after = await store.admins.sign_in(promoted) or (None, None)
    assert (before, after) == (olga, replace(olga, role=Role.ADMIN, teams=None))
    assert await store.admins.get("oidc:olga") == after
    for name in ("oidc:olga", "ada"):
        assert await store.admins.sign_in(replace(olga, name=name, subject="https://idp.example 2")) is None
    assert len(await store.admins.list()) == 2


async def test_an_admin_of_a_provider_does_not_count_as_the_one_that_remains(store: Store) -> None:
    """The provider may take the role away, or not answer; such an admin can be removed."""
    await enter(store, "ada")
    await store.admins.sign_in(Admin("oidc:olga", Role.ADMIN, "", NOW, subject="https://idp.example 1"))
    assert await store.admins.set_role("ada", Role.OPERATOR) is ChangeResult.LAST_ADMIN
    assert await store.admins.remove("ada") is ChangeResult.LAST_ADMIN
    assert await store.admins.remove("oidc:olga") is ChangeResult.DONE


async def test_an_invitation_gives_its_teams(store: Store) -> None:
    """To the account that is made with it; they change afterwards, for known accounts alone."""
    await store.admins.invite(Invitation(FIRST, "vic", Role.VIEWER, "ada", LATER, ("shop",)), NOW)
    account = await store.admins.accept(FIRST, "", "hash", NOW)
    assert account
    assert (account.teams, await store.admins.get("vic")) == (("shop",), account)
    assert await store.admins.set_teams("vic", ["search", "ads"])
    assert not await store.admins.set_teams("nobody", None)
    assert [account.teams for account in await store.admins.list()] == [("ads", "search")]


def test_each_role_includes_those_before_it() -> None:
    """Viewer, operator, admin."""
    assert [[role.includes(least) for least in Role] for role in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


async def test_an_invitation_is_withdrawn(store: Store) -> None:
    """All links of the name, and of nobody else; removing nobody, or the last admin, leaves links alone."""
    await enter(store, "ada")
    for digest, name in ((FIRST, "tom"), (SECOND, "ada")):
        await store.admins.invite(Invitation(digest, name, Role.VIEWER, "ada", LATER), NOW)
    assert await store.admins.remove("tom") is ChangeResult.UNKNOWN
    assert await store.admins.remove("ada") is ChangeResult.LAST_ADMIN
    assert len(await store.admins.invited(NOW)) == 2
    assert await store.admins.withdraw("tom")
    assert not await store.admins.withdraw("tom")
    assert await store.admins.invitation(FIRST, NOW) is None
    assert await store.admins.accept(FIRST, "", "hash", NOW) is None
    assert [invitation.name for invitation in await store.admins.invited(NOW)] == ["ada"]

"""The dashboard on the admin port: server-rendered pages that work without JavaScript.

`guard` checks every request (host, headers, session, CSRF, role); `pages` renders templates; each other module serves
one page. Pages only display what the store and the engine report and do not decide about prompts.
"""

from __future__ import annotations

from sidecar.dashboard.dashboard import Dashboard, Dependencies
from sidecar.dashboard.invitations import base_url, bootstrap, invite

__all__ = ["Dashboard", "Dependencies", "base_url", "bootstrap", "invite"]

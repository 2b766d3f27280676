"""The dashboard on the admin port: server-rendered pages that work without JavaScript.

`guard` stands before every page (host, headers, session, CSRF, role); `pages` draws templates; each other
module serves one page. Nothing here decides about prompts: pages show what the store and the engine say.
"""

from __future__ import annotations

from sidecar.dashboard.dashboard import Dashboard, Dependencies
from sidecar.dashboard.invitations import base_url, bootstrap, invite

__all__ = ["Dashboard", "Dependencies", "base_url", "bootstrap", "invite"]

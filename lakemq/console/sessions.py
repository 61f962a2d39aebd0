"""Sessions of signed-in users. Tokens are only in this process's memory: not in a cookie, a page or a log."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable

from lakemq.console.asked import Asked
from lakemq.console.looks import Watches
from lakemq.settings import Console
from lakemq.web.room import Holders, Room
from lakemq.wire.credentials import Credentials

ID_BYTES = 32


class Session:
    """One user who is signed in. `asked`: brokers, as that user asks them. Times are monotonic."""

    def __init__(self, user: str, credentials: Credentials, addresses: tuple[str, ...], now_s: float) -> None:
        self.user = user
        self.asked = Asked(addresses, credentials)
        self.watches = Watches(self.asked)
        self.began_s = self.used_s = now_s

    def __repr__(self) -> str:
        return f"Session({self.user})"


class Sessions:
    """By the random id that a cookie has: where there are too many, the oldest unused end, and a user's own before
    others'. `ended` is given each."""

    def __init__(self, limits: Console, ended: Callable[[Session], None]) -> None:
        self._limits = limits
        self._ended = ended
        self._key = secrets.token_bytes(ID_BYTES)
        self._sessions: dict[str, Session] = {}
        self._users: Holders[str] = Holders(Room.shared(limits.sessions_max, limits.client_share))
        """Whose they are, those first that weren't used for longest."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, session: Session) -> str:
        """Its id: a new one, so nobody can have had it before."""
        name, room = new_id(), self._users.room
        if room.is_full_for(session.user) or (room.is_full and self._users.count_of(session.user)):
            self.end(self._users.first_of(session.user))
        elif room.is_full:
            self.end(self._users.first())
        self._sessions[name] = session
        self._users.put(name, session.user, 1)
        return name

    def find(self, name: str, now_s: float) -> Session | None:
        """The session with this id, which counts as used now; None: there is none, or it has expired."""
        session = self._sessions.get(name)
        if session is None:
            return None
        idle_s, age_s = now_s - session.used_s, now_s - session.began_s
        if idle_s * 1000 > self._limits.session_idle_ms_max or age_s * 1000 > self._limits.session_ms_max:
            self.end(name)
            return None
        session.used_s = now_s
        self._users.put(name, session.user, 1)
        return session

    def end(self, name: str) -> None:
        """Forget it, and its token."""
        if (session := self._sessions.pop(name, None)) is not None:
            self._users.remove(name)
            self._ended(session)

    def sweep(self, now_s: float) -> None:
        """End expired sessions. The least recently used one comes first."""
        while self._sessions:
            name = self._users.first()
            if (now_s - self._sessions[name].used_s) * 1000 <= self._limits.session_idle_ms_max:
                return
            self.end(name)

    def end_all(self) -> None:
        """Forget all."""
        for name in list(self._sessions):
            self.end(name)

    def form_token(self, name: str) -> str:
        """What each form of a page that is shown to the cookie of that id has in it, and no other page can know."""
        return hmac.digest(self._key, name.encode(), "sha256").hex()

    def is_form_token(self, name: str, said: str) -> bool:
        """Whether the form was shown to the session that sends it."""
        return hmac.compare_digest(self.form_token(name).encode(), said.encode())


def new_id() -> str:
    """Nobody can guess it."""
    return secrets.token_urlsafe(ID_BYTES)

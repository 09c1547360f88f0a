"""An issuer for trying things out: `python issuer.py requester|approver COMMAND ...` runs a command with a token.

`python issuer.py requester --without division COMMAND ...` leaves a claim out of the token, to see what asks for it.

It vouches for two callers that anybody here may choose to be, so it is for this example alone. It listens on this
machine while the command runs, with a key that is made for the command and kept nowhere. Only the environment of the
command names it: no `agent.toml` believes it.
"""

import json
import os
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

AUDIENCE = "tickets"
LIFETIME_SECONDS = 300
CLAIMS: dict[str, dict[str, Any]] = {
    "requester": {
        "scope": "tickets:read tickets:write tickets:admin",
        "division": "support",
        "clearance_level": "RESTRICTED",
        "cost_center": "CC-17",
    },
    "approver": {
        "roles": ["approver"],
        "division": "operations",
        "clearance_level": "RESTRICTED",
        "cost_center": "CC-4",
    },
}
OPTIONAL = ("division", "clearance_level", "cost_center")
PORT_FILE = Path(__file__).parent / ".agent" / "issuer.port"


def main() -> int:
    """Run the command with a token of the caller, while the issuer answers for its key."""
    parsed = parse_line(sys.argv[1:])
    if parsed is None:
        sys.stderr.write(f"usage: python issuer.py {'|'.join(CLAIMS)} [--without {'|'.join(OPTIONAL)}] COMMAND ...\n")
        return 2
    caller, without, command = parsed
    key = ECKey.generate_key("P-256", {"kid": "trial", "use": "sig"})
    server = open_server()
    issuer = f"http://127.0.0.1:{server.server_port}"
    documents = {
        "/.well-known/openid-configuration": {"issuer": issuer, "jwks_uri": f"{issuer}/keys"},
        "/keys": {"keys": [key.as_dict(private=False)]},
    }
    server.RequestHandlerClass = handler_of(documents)
    Thread(target=server.serve_forever, daemon=True).start()
    variables = {
        "AGENT_IDENTITY_ISSUER": issuer,
        "AGENT_IDENTITY_AUDIENCE": AUDIENCE,
        "AGENT_TOKEN": token_for(caller, issuer, key, without),
    }
    try:
        return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode
    except OSError as error:
        sys.stderr.write(f"error: `{command[0]}` cannot be run: {error.strerror}\n")
        return 2
    finally:
        server.shutdown()


def parse_line(words: list[str]) -> tuple[str, frozenset[str], list[str]] | None:
    """The caller, the claims to leave out, and the command; None where the line is not understood."""
    caller, command = (words[0] if words else ""), words[1:]
    without = set()
    while command[:1] == ["--without"]:
        without.update(command[1:2])
        command = command[2:]
    if caller not in CLAIMS or not without <= set(OPTIONAL) or not command:
        return None
    return caller, frozenset(without), command


def open_server() -> ThreadingHTTPServer:
    """Listen on the same port every time: the address is the name of the issuer, and callers are known by it."""
    port = int(PORT_FILE.read_text()) if PORT_FILE.exists() else 0
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler)
    except OSError as error:
        sys.exit(f"error: port {port} cannot be used: {error.strerror}\nhint: try again, or remove {PORT_FILE}")
    PORT_FILE.parent.mkdir(exist_ok=True)
    PORT_FILE.write_text(f"{server.server_port}\n")
    return server


def handler_of(documents: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    """What answers requests for these documents."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = documents.get(self.path)
            body = json.dumps(found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: the output is that of the command."""

    return Handler


def token_for(caller: str, issuer: str, key: ECKey, without: frozenset[str] = frozenset()) -> str:
    """A signed access token of one of the two callers, for a few minutes, without the claims that are left out."""
    now = int(time.time())
    stated = {name: value for name, value in CLAIMS[caller].items() if name not in without}
    claims = {
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": caller,
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        **stated,
    }
    return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": "trial"}, claims, key)


if __name__ == "__main__":
    sys.exit(main())

"""As much of the Hugging Face hub's API as huggingface_hub needs to create, fill, list and read a model repository."""

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub:
    """Repositories by name: file -> content. Requests are counted."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.requests = 0

    def sha(self, name: str) -> str:
        files = sorted(self.repositories[name].items())
        return hashlib.sha1(repr(files).encode()).hexdigest()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None: ...

        def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(code)
            for key, value in headers.items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def json(self, value: Any) -> None:
            self.answer(200, json.dumps(value).encode(), Content_Type="application/json")

        def do_GET(self) -> None:
            hub.requests += 1
            parts = self.path.partition("?")[0].strip("/").split("/")
            api = parts[:2] == ["api", "models"]
            name = "/".join(parts[2:4] if api else parts[:2])
            if name not in hub.repositories:
                return self.answer(404, b"{}", X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
            files, sha = hub.repositories[name], hub.sha(name)
            if api and parts[4:5] == ["tree"]:
                tree = [
                    {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                    for path, data in files.items()
                ]
                return self.json(tree)
            if api:
                siblings = [{"rfilename": path, "size": len(data)} for path, data in files.items()]
                return self.json({"id": name, "modelId": name, "sha": sha, "private": False, "siblings": siblings})
            path = "/".join(parts[4:])
            if path not in files:
                return self.answer(404, b"", X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
            tag = hashlib.sha1(files[path]).hexdigest()
            return self.answer(200, files[path], ETag=f'"{tag}"', X_Repo_Commit=sha)

        do_HEAD = do_GET

        def do_POST(self) -> None:
            hub.requests += 1
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            while self.headers.get("Transfer-Encoding") == "chunked" and (size := int(self.rfile.readline(), 16)):
                body += self.rfile.read(size)
                self.rfile.readline()
            parts = self.path.partition("?")[0].strip("/").split("/")
            if parts == ["api", "validate-yaml"]:
                return self.json({"errors": [], "warnings": []})
            if parts == ["api", "repos", "create"]:
                asked = json.loads(body)
                name = "/".join(part for part in (asked.get("organization"), asked["name"]) if part)
                hub.repositories.setdefault(name, {})
                return self.json({"url": f"http://{self.headers['Host']}/{name}", "id": name})
            name, action = "/".join(parts[2:4]), parts[4]
            if action == "preupload":
                asked = json.loads(body)["files"]
                return self.json(
                    {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]}
                )
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    hub.repositories[name][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            address = f"http://{self.headers['Host']}/{name}/commit/{hub.sha(name)}"
            return self.json({"success": True, "commitOid": hub.sha(name), "commitUrl": address})

    return Handler


@contextlib.contextmanager
def running() -> Iterator[tuple[str, Hub]]:
    """The address of a hub on this machine, and the hub."""
    hub = Hub()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", hub
        finally:
            server.shutdown()

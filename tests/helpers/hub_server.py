"""A small in-memory Hub on 127.0.0.1 that implements the part of the protocol that the Hugging Face libraries use.

    with Hub() as hub:
        ...  # clients in other processes, with the environment variables of hub.environment
        hub.repos["model", "user/name"].commits

It is modelled on the requests of the clients. It has one user, `user`, whose token is `TOKEN`.
"""

import base64
import hashlib
import json
import re
import secrets
import threading
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

TOKEN = "hf_token_of_user"
LICENSES = {"apache-2.0", "cc-by-nc-4.0", "cc0-1.0", "unknown"}
LARGE = (".parquet", ".safetensors")
PREFIX = {"model": "", "dataset": "datasets/", "space": "spaces/"}
REPO = r"(?P<id>[^/]+/[^/]+)"


@dataclass
class Commit:
    title: str
    files: dict[str, bytes]
    sha: str = field(default_factory=lambda: secrets.token_hex(20))


@dataclass
class Repo:
    private: bool
    commits: list[Commit]
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[-1].files


def etag(name: str, content: bytes) -> str:
    """The oid of a file on the Hub: SHA-256 for a large file, the git hash for any other."""
    if name.endswith(LARGE):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Hub:
    """The server, which answers inside the block. In a block within it, another Hub answers at the same address.

    Attributes:
        repos: (kind, id) -> repo.
        requests: the method and path of each request, in order.
        drop: a pattern of paths. The server drops the connection half-way through the body of a matching request.
        busy: a pattern of paths that are answered with status 429.
        silent: whether requests are answered only after the end of the block.
    """

    def __init__(self):
        self.repos: dict[tuple[str, str], Repo] = {}
        self.large: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.drop = self.busy = r"(?!)"  # nothing
        self.silent, self.ended = False, threading.Event()
        self.url = f"http://127.0.0.1:{server().server_port}"
        self.environment = {"HF_ENDPOINT": self.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}

    def __enter__(self):
        self.outer, server().hub = server().hub, self
        return self

    def __exit__(self, *_):
        self.ended.set()
        server().hub = self.outer


@cache
def server() -> ThreadingHTTPServer:
    """One server for all Hubs, because the libraries keep the address with which they were imported."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.hub = None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


class Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "", commit: str = ""):
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Code": code} if code else {}
        self.headers |= {"X-Repo-Commit": commit} if commit else {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_any(self):
        self.hub: Hub = self.server.hub
        self.path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, self.path))
        if self.hub.silent:
            self.hub.ended.wait()
            self.close_connection = True
            return
        length = int(self.headers.get("Content-Length", 0))
        if re.search(self.hub.drop, self.path):
            self.rfile.read(length // 2)
            self.close_connection = True
            return self.connection.close()
        body = self.rfile.read(length)
        try:
            if re.search(self.hub.busy, self.path):
                raise Refusal(429, "too many requests")
            for pattern, route in ROUTES:
                if match := re.fullmatch(pattern, f"{self.command} {self.path}"):
                    return route(self, body, **match.groupdict())
            raise Refusal(404, f"no route for {self.command} {self.path}")
        except Refusal as refusal:
            headers = {"X-Error-Message": str(refusal), **refusal.headers}
            self.answer({"error": str(refusal)}, refusal.status, headers)

    do_GET = do_HEAD = do_POST = do_PUT = handle_any

    def answer(self, content, status=200, headers=None):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass

    # Permissions and lookups.

    @property
    def known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def authorize(self):
        if not self.known:
            raise Refusal(401, "Invalid username or password.")

    def repo(self, kind: str, id: str) -> Repo:
        repo = self.hub.repos.get((kind, id))
        if repo is None or (repo.private and not self.known):
            raise Refusal(404, "Repository not found", "RepoNotFound")
        return repo

    def commit_at(self, kind: str, id: str, revision: str | None) -> Commit:
        for commit in reversed(self.repo(kind, id).commits):
            if revision in (None, "main", commit.sha):
                return commit
        raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")

    # The routes.

    def create(self, body):
        self.authorize()
        request = json.loads(body)
        kind, id = request.get("type", "model"), f"{request['organization'] or 'user'}/{request['name']}"
        if request["organization"] not in (None, "user"):
            raise Refusal(403, f"You don't have the rights to create a {kind} under the namespace")
        url = {"url": f"{self.hub.url}/{PREFIX[kind]}{id}"}
        if (kind, id) in self.hub.repos:
            return self.answer(url, 409)
        first = Commit("initial commit", {".gitattributes": b"*.parquet filter=lfs diff=lfs merge=lfs -text\n"})
        self.hub.repos[kind, id] = Repo(request.get("visibility") == "private", [first])
        self.answer(url)

    def validate_yaml(self, body):
        content = json.loads(body)["content"]
        license = re.search(r"^license: *(\S+)$", content, re.M)
        errors = [{"message": '"license" is not valid'}] if license and license[1] not in LICENSES else []
        if errors and self.headers.get("Accept") == "text/plain":
            return self.answer(f"- Error: {errors[0]['message']}".encode(), 400)
        self.answer({"errors": errors, "warnings": []}, 400 if errors else 200)

    def preupload(self, body, kind, id, revision):
        self.authorize()
        existing = self.commit_at(kind, id, revision).files
        names = [file["path"] for file in json.loads(body)["files"]]
        modes = {name: "lfs" if name.endswith(LARGE) else "regular" for name in names}
        oids = {name: etag(name, existing[name]) if name in existing else None for name in names}
        answer = [{"path": n, "uploadMode": modes[n], "shouldIgnore": False, "oid": oids[n]} for n in names]
        self.answer({"files": answer})

    def commit(self, body, kind, id, revision):
        self.authorize()
        repo = self.repo(kind, id)
        lines = [json.loads(line) for line in body.splitlines()]
        files = dict(repo.files)
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
            else:
                raise Refusal(400, f"{line['key']} is not supported here")
        repo.commits.append(Commit(lines[0]["value"]["summary"], files))
        sha = repo.commits[-1].sha
        self.answer({"success": True, "commitOid": sha, "commitUrl": f"{self.hub.url}/{PREFIX[kind]}{id}/commit/{sha}"})

    def variables(self, body, id):
        self.authorize()
        variables = self.repo("space", id).variables
        variable = json.loads(body)
        variables[variable["key"]] = variable["value"]
        self.answer({key: {"value": value} for key, value in variables.items()})

    def large_files(self, body, prefix, id):
        self.authorize()
        objects = []
        for large in json.loads(body)["objects"]:
            upload = {"upload": {"href": f"{self.hub.url}/large/{large['oid']}"}}
            objects.append(large if large["oid"] in self.hub.large else large | {"actions": upload})
        self.answer({"transfer": "basic", "objects": objects})

    def put_large(self, body, oid):
        if hashlib.sha256(body).hexdigest() != oid:
            raise Refusal(400, "the content has another SHA-256")
        self.hub.large[oid] = body
        self.answer({})

    def info(self, body, kind, id, revision=None):
        commit = self.commit_at(kind, id, revision)
        self.answer({
            "id": id, "sha": commit.sha, "private": self.repo(kind, id).private, "tags": [], "downloads": 0, "likes": 0,
            "siblings": [{"rfilename": name} for name in commit.files], "gated": False, "disabled": False,
        })  # fmt: skip

    def tree(self, body, kind, id, revision, folder=None):
        files = self.commit_at(kind, id, revision).files
        inside = f"{folder}/" if folder else ""
        entries, folders = [], set()
        for name in (name for name in files if name.startswith(inside)):
            head, slash, _ = name.removeprefix(inside).partition("/")
            if slash and inside + head not in folders:
                folders.add(inside + head)
                entries.append({"type": "directory", "path": inside + head, "oid": "0" * 40, "size": 0})
            if not slash or "recursive=true" in self.requestline:
                entries.append(self.entry(name, files[name]))
        if folder and not entries:
            raise Refusal(404, f"{folder} does not exist", "EntryNotFound")
        self.answer(entries)

    def entry(self, name, content):
        entry = {"type": "file", "path": name, "size": len(content), "oid": etag(name, content)}
        if name.endswith(LARGE):
            entry["lfs"] = {"oid": etag(name, content), "size": len(content), "pointerSize": 134}
        return entry

    def resolve(self, body, prefix, id, revision, name):
        kind = next(kind for kind, start in PREFIX.items() if start == (prefix or ""))
        commit = self.commit_at(kind, id, revision)
        if name not in commit.files:
            raise Refusal(404, "Entry not found", "EntryNotFound", commit.sha)
        content = commit.files[name]
        headers = {"X-Repo-Commit": commit.sha, "ETag": f'"{etag(name, content)}"', "Accept-Ranges": "bytes"}
        if byte_range := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, end = int(byte_range[1]), min(int(byte_range[2] or len(content)), len(content) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            return self.answer(content[start : end + 1], 206, headers)
        self.answer(content, 200, headers)


API = rf"/api/(?P<kind>model|dataset|space)s/{REPO}"
FILES = rf"/(?P<prefix>datasets/|spaces/)?{REPO}"
ROUTES = [
    (r"POST /api/repos/create", Handler.create),
    (r"POST /api/validate-yaml", Handler.validate_yaml),
    (rf"POST {API}/preupload/(?P<revision>[^/]+)", Handler.preupload),
    (rf"POST {API}/commit/(?P<revision>[^/]+)", Handler.commit),
    (rf"POST /api/spaces/{REPO}/variables", Handler.variables),
    (rf"POST {FILES}\.git/info/lfs/objects/batch", Handler.large_files),
    (r"PUT /large/(?P<oid>[0-9a-f]+)", Handler.put_large),
    (rf"GET {API}", Handler.info),
    (rf"GET {API}/revision/(?P<revision>[^/]+)", Handler.info),
    (rf"GET {API}/tree/(?P<revision>[^/]+)(?:/(?P<folder>.+))?", Handler.tree),
    (rf"(?:GET|HEAD) {FILES}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", Handler.resolve),
]

"""A headless Chromium, driven over its own pipe: what a page shows, what it asks for, what it complains about.

    python -m tests.report.browser runs/smoke/report.html FOLDER     screenshots at laptop and phone size

Chromium speaks its DevTools protocol on two file descriptors (`--remote-debugging-pipe`, messages end with a NUL byte),
so neither a driver nor a package is needed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 180.0  # s for an answer; a busy machine starts a browser slowly
# Commands are read from descriptor 3, answers written to 4, whatever numbers our ends have.
_EXEC = (
    "import fcntl, os, sys\n"
    "ends = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]\n"
    "for place, end in zip((3, 4), ends):\n"
    "    os.dup2(end, place, inheritable=True)\n"
    "os.execv(sys.argv[3], sys.argv[3:])\n"
)
FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Screen:
    """A viewport in CSS pixels."""

    width: int
    height: int
    mobile: bool = False


LAPTOP, PHONE = Screen(width=1366, height=768), Screen(width=390, height=844, mobile=True)


@dataclass(kw_only=True)
class Opened:
    """A page that has loaded. requests: every URL but data: ones, in order; complaints: console and exceptions."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def find_browser() -> str | None:
    """Path of a Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One Chromium with one page. Use as a context manager."""

    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="odin-browser-")
        child_in, self._out = os.pipe()
        self._in, child_out = os.pipe()
        command = [sys.executable, "-c", _EXEC, str(child_in), str(child_out), path, *FLAGS,
                   f"--user-data-dir={self._folder.name}"]  # fmt: skip
        self._process = subprocess.Popen(
            command, pass_fds=(child_in, child_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(child_in)
        os.close(child_out)
        self._text, self._count, self._session = b"", 0, ""
        self._events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        with suppress(OSError):
            self._folder.cleanup()

    def call(self, method: str, **parameters: object) -> dict:
        """A command of the protocol and its answer. Raises RuntimeError."""
        self._count += 1
        message: dict = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, page: Path, screen: Screen) -> Opened:
        """Load a file at a size; returns when the page and its pictures have loaded."""
        self.call("Emulation.setDeviceMetricsOverride", width=screen.width, height=screen.height, deviceScaleFactor=1,
                  mobile=screen.mobile)  # fmt: skip
        self._events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._read()
        self.evaluate("new Promise(done => setTimeout(done, 200))")  # what a page does right after it has loaded
        opened = Opened()
        for event in self._events:
            name, said = event["method"], event["params"]
            if name == "Network.requestWillBeSent" and not said["request"]["url"].startswith("data:"):
                opened.requests.append(said["request"]["url"])
            if name in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                opened.complaints.append(json.dumps(said)[:2000])
        return opened

    def evaluate(self, script: str) -> object:
        """Value of a JavaScript expression in the page. Raises RuntimeError."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def picture(self, path: Path, *, top: float = 0, height: float | None = None) -> Path:
        """A PNG of the page as wide as the screen, from `top` on; height: the screen's by default."""
        width, screen = self.evaluate("[innerWidth, innerHeight]")  # type: ignore[misc]
        clip = {"x": 0, "y": top, "width": width, "height": height or screen, "scale": 1}
        answer = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))
        return path

    def _read(self) -> dict:
        """The next message; an event is also kept. Raises RuntimeError where none comes."""
        limit = time.monotonic() + PATIENCE
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._in], [], [], max(0.0, limit - time.monotonic()))
            part = os.read(self._in, 1 << 16) if ready else b""
            if not part:
                raise RuntimeError(f"The browser says nothing (exit code {self._process.poll()}).")
            self._text += part
        text, _, self._text = self._text.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self._events.append(message)
        return message


def main(arguments: list[str]) -> int:
    """Write screenshots of a page, a screen each."""
    path = find_browser()
    if path is None or len(arguments) != 2:
        print(__doc__ if path else "No Chromium is installed.", file=sys.stderr)
        return 2
    page, folder = Path(arguments[0]), Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    with Browser(path) as browser:
        for name, screen in (("laptop", LAPTOP), ("phone", PHONE)):
            opened = browser.open(page, screen)
            whole = float(browser.evaluate("document.documentElement.scrollHeight"))  # type: ignore[arg-type]
            print(f"{name}: {whole:.0f} px, requests {opened.requests}, complaints {opened.complaints}")
            for place in range(int(whole // (2 * screen.height)) + 1):
                top = 2 * screen.height * place
                browser.picture(folder / f"{name}-{place:02d}.png", top=top, height=min(2 * screen.height, whole - top))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

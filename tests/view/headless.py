"""A real browser without a window, driven through the pipe of its developers' protocol: nothing but the browser is
needed.

It is Chromium, as Debian's `chromium-headless-shell` or any Chromium or Chrome in `PATH` brings it; `DRYSTONE_BROWSER`
names another.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from queue import Empty, Queue

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
_KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Home": (36, ""),
    "End": (35, ""),
    "Tab": (9, ""),
}


def program():
    """The browser, or None."""
    named = os.environ.get("DRYSTONE_BROWSER")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


class PageError(AssertionError):
    """What went wrong in the page."""


class Browser:
    """One window of one size."""

    def __init__(self, width=1280, height=860, dark=False):
        self._folder = tempfile.TemporaryDirectory(prefix="drystone-browser-", ignore_cleanup_errors=True)
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def take_pipes():
            # The protocol is spoken on 3 and 4; the ends may have these numbers already.
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [
                program(),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--no-first-run",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                f"--user-data-dir={self._folder.name}",
                f"--window-size={width},{height}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            close_fds=False,
            preexec_fn=take_pipes,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._answers = {}
        self._arrived = Queue()
        self.problems = []
        self.requests = []
        threading.Thread(target=self._listen, daemon=True).start()
        self._session = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")
        self.resize(width, height)
        self.prefer("dark" if dark else "light")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._to)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def _listen(self):
        rest = b""
        while True:
            try:
                more = os.read(self._from, 1 << 20)
            except OSError:
                return
            if not more:
                return
            *whole, rest = (rest + more).split(b"\0")
            for text in whole:
                said = json.loads(text)
                if "id" in said:
                    self._arrived.put(said)
                elif said["method"] == "Runtime.exceptionThrown":
                    details = said["params"]["exceptionDetails"]
                    self.problems.append(details.get("exception", {}).get("description", details["text"]))
                elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] == "error":
                    entry = said["params"]["entry"]
                    self.problems.append(f"{entry['text']} {entry.get('url', '')}")
                elif said["method"] == "Network.requestWillBeSent":
                    self.requests.append(said["params"]["request"]["url"])

    def _call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        until = time.monotonic() + 60
        while self._number not in self._answers:
            try:
                said = self._arrived.get(timeout=max(0.1, until - time.monotonic()))
            except Empty:
                raise PageError(f"the browser does not answer to {method}") from None
            self._answers[said["id"]] = said
        said = self._answers.pop(self._number)
        if "error" in said:
            raise PageError(f"{method}: {said['error']['message']}")
        return said["result"]

    def resize(self, width, height):
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme):
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def downloads(self, folder):
        """Where files go that the page saves."""
        self._call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def wait_for(self, done, seconds=60):
        """Until something outside the page is done."""
        until = time.monotonic() + seconds
        while not done():
            if time.monotonic() > until:
                raise PageError(f"never done ({self.problems})")
            time.sleep(0.03)

    def open(self, url):
        self._call("Page.navigate", url=url)

    def run(self, code):
        """The value of an expression, in the page; promises are awaited."""
        found = self._call(
            "Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise PageError(details.get("exception", {}).get("description", details["text"]))
        return found["result"].get("value")

    def wait(self, condition, seconds=60):
        """Until an expression is true; gives its value."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                found = self.run(condition)
            except PageError as error:
                # The page is on its way to another address, or has not made the element yet.
                if not any(
                    text in str(error) for text in ("Cannot", "null", "undefined", "navigated or closed")
                ):
                    raise
                found = None
            if found:
                return found
            time.sleep(0.03)
        said = self.run("document.getElementById('problem')?.textContent")
        raise PageError(f"never true: {condition} (the page says: {said!r}; {self.problems})")

    def box(self, selector):
        """Left, top, width and height of an element."""
        return self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'nearest'}});"
            " const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )

    def mouse(self, kind, x, y, buttons=0, count=0):
        self._call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left" if kind != "mouseMoved" else "none",
            buttons=buttons,
            clickCount=count,
        )

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)

    def click(self, target):
        """A place, or the middle of what a selector finds."""
        if isinstance(target, str):
            self.wait(f"!!document.querySelector({json.dumps(target)})")
            left, top, width, height = self.box(target)
            target = left + width / 2, top + height / 2
        self.move(*target)
        self.mouse("mousePressed", *target, 1, 1)
        self.mouse("mouseReleased", *target, 0, 1)

    def drag(self, start, end):
        self.move(*start)
        self.mouse("mousePressed", *start, 1, 1)
        for part in (0.3, 0.7, 1.0):
            place = [a + (b - a) * part for a, b in zip(start, end, strict=True)]
            self.mouse("mouseMoved", *place, 1)
        self.mouse("mouseReleased", *end, 0, 1)

    def press(self, key):
        code, text = _KEYS[key] if key in _KEYS else (ord(key.upper()), key)
        given = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
        self._call("Input.dispatchKeyEvent", type="keyDown", **given)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def choose(self, selector, value):
        """Sets a select or an input, and tells the page as a person's hand would."""
        self.wait(f"!!document.querySelector({json.dumps(selector)})")
        self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)};"
            " for (const kind of ['input', 'change']) e.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def pixels(self, selector):
        """What a canvas shows: width, height, and its pixels as bytes, four for each."""
        found = self.run(
            f"(() => {{ const c = document.querySelector({json.dumps(selector)});"
            " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let s = '';"
            " for (let i = 0; i < d.length; i += 8192) s += String.fromCharCode(...d.subarray(i, i + 8192));"
            " return [c.width, c.height, btoa(s)]; })()"
        )
        return found[0], found[1], base64.b64decode(found[2])

    def screenshot(self, path):
        data = self._call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))

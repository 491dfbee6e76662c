"""Starts headless Firefox, which needs a profile with preferences instead of command-line flags.

Firefox cannot play a file as its camera. Its page plays the clip in an element and sends the stream of that
element (``page/media.js``).
"""

from __future__ import annotations

import json

from rtclab.backend.live.browsers.browser_process import BrowserProcess
from rtclab.scenario import Browser

FIREFOX_NAMES = ("firefox-esr", "firefox")

PREFERENCES: dict[str, bool | int | str] = {
    # Devices: fake ones, without a question, on a page that has no TLS.
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    "media.devices.insecure.enabled": True,
    "media.getusermedia.insecure.enabled": True,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    # Firefox offers the address of an interface without a default route only to pages that may use a camera.
    "permissions.default.camera": 1,
    "permissions.default.microphone": 1,
    # Names in .local instead of addresses need multicast DNS. Loopback carries the page only.
    "media.peerconnection.ice.obfuscate_host_addresses": False,
    "media.peerconnection.ice.loopback": False,
    # Names of nodes, such as `app`, may be top-level domains that Firefox opens with HTTPS only.
    "network.stricttransportsecurity.preloadlist": False,
    "dom.security.https_first": False,
    # A page that is not visible must not be slowed down.
    "dom.min_background_timeout_value": 4,
    "dom.timeout.enable_budget_timer_throttling": False,
    "media.suspend-background-video.enabled": False,
    "privacy.reduceTimerPrecision": False,
    # Nothing may use the network but the page: no updates, reports, prefetching or first-run pages.
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.cache.disk.enable": False,
    "browser.newtabpage.enabled": False,
    "browser.safebrowsing.downloads.remote.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.search.update": False,
    "browser.sessionstore.resume_from_crash": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "browser.tabs.unloadOnLowMemory": False,
    "datareporting.healthreport.uploadEnabled": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.dns.disablePrefetch": True,
    "network.prefetch-next": False,
    "network.proxy.type": 0,
    "services.settings.server": "http://127.0.0.1:9",
    "toolkit.telemetry.enabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False,
}
"""Preferences of every profile."""


class Firefox(BrowserProcess):
    """One Firefox, with the methods of :class:`BrowserProcess`.

    It has no event logs. ``start`` ignores ``clip`` and ``sound``, which its page plays.
    """

    def _command(self, executable: str, clip: str | None, sound: str | None, options: Browser) -> list[str]:
        self.profile.mkdir()
        (self.profile / "user.js").write_text(user_js(), encoding="utf-8")
        command = [executable, "--headless", "--no-remote", "--profile", str(self.profile)]
        return command + options.args

    def _environment(self) -> dict[str, str]:
        return super()._environment() | {
            "XDG_CACHE_HOME": str(self._home / "cache"),
            "MOZ_CRASHREPORTER_DISABLE": "1",
            # Release builds ignore the preference services.settings.server without it.
            "MOZ_REMOTE_SETTINGS_DEVTOOLS": "1",
            # The sandbox's namespaces cannot be nested in the lab's.
            "MOZ_DISABLE_CONTENT_SANDBOX": "1",
            "MOZ_DISABLE_RDD_SANDBOX": "1",
            "MOZ_DISABLE_SOCKET_PROCESS_SANDBOX": "1",
            "MOZ_DISABLE_UTILITY_SANDBOX": "1",
            "MOZ_DISABLE_GMP_SANDBOX": "1",
        }


BROWSERS: dict[str, type[BrowserProcess]] = {"chromium": BrowserProcess, "firefox": Firefox}
"""The class of each browser that a scenario can name."""


def user_js() -> str:
    """The file of preferences in a profile."""
    return "".join(
        f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()
    )

"""Which proxy a request goes through, as the environment says."""

from __future__ import annotations

import base64
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from deltacli.errors import StorageError
from deltacli.sharing.profile import LOOPBACK


def proxy_for(parts: SplitResult, port: int) -> str | None:
    """The proxy's URL for a request; None to go straight there, as to this machine always."""
    host = parts.hostname or ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or host in LOOPBACK or proxy_bypass(host) or proxy_bypass(f"{host}:{port}"):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        found = urlsplit(proxy)
        is_known = found.scheme == "http" and found.hostname and (found.port or 80)
    except ValueError:
        is_known = False
    if not is_known:
        raise StorageError(
            f"the proxy for {host} cannot be used: {proxy.rpartition('@')[2]!r}",
            hint=f"{parts.scheme}_proxy takes http://HOST:PORT; no_proxy names hosts without",
        )
    return proxy


def proxy_headers(proxy: str) -> dict[str, str]:
    """The credentials in a proxy's URL."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    return {
        "Proxy-Authorization": basic(unquote(parts.username), unquote(parts.password or "")),
    }


def basic(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

"""Which key may go to which endpoint."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from pipelines.errors import SettingsError

PROVIDER_KEY = "OPENAI_API_KEY"
_PROVIDER = "api.openai.com"


def key_variable(address: str, given: str | None) -> str:
    """The environment variable of an endpoint's key: the one given for it, else that of OpenAI for OpenAI's own
    address; empty where there is none."""
    if given is not None:
        return given
    parts = urlsplit(address)
    return PROVIDER_KEY if parts.scheme == "https" and parts.hostname == _PROVIDER and _usual_port(parts.port) else ""


def recorded_variable(
    recorded: str | None, address: str | None, now: str | None, now_address: str | None
) -> str | None:
    """The variable that a record names for an address. Earlier versions recorded that of OpenAI where none was given:
    it counts only where the settings of `now` name it for the same address."""
    if recorded != PROVIDER_KEY or (now == PROVIDER_KEY and address == now_address):
        return recorded
    return None


def _usual_port(port: int | None) -> bool:
    return port in (None, 443)


def is_loopback(address: str) -> bool:
    """Whether an address is of this machine, told from its name alone."""
    host = urlsplit(address).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_private(address: str, key: str, setting: str) -> None:
    """Raises SettingsError where a key (or the name of its variable) would go over a network in the clear."""
    if key and urlsplit(address).scheme != "https" and not is_loopback(address):
        raise SettingsError(
            f"{setting} would send its key over plain HTTP to {urlsplit(address).hostname}, where others can read it: "
            "give an https address, a tunnel to it on localhost, or no api_key_env"
        )

# SPDX-License-Identifier: Apache-2.0
"""Network settings in the environment variables and files of other tools.

Each function returns a value, or None if nothing is set. A function that returns a pair also
returns the name of the variable.
"""

import os

from ._errors import usage

_true = ("1", "ON", "YES", "TRUE")
file_bytes_max = 1 << 20


def _first(*names):
    for name in names:
        value = os.environ.get(name)
        if value:
            return value, name
    return None, None


def _is_true(name):
    return os.environ.get(name, "").upper() in _true


def _content(path):
    """Returns the text of a small file, or an empty text if the file cannot be read."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8", errors="replace") as file:
            text = file.read(file_bytes_max + 1)
    except OSError:
        return ""
    return text if len(text) <= file_bytes_max else ""


# --- the hub


def is_offline():
    return _is_true("HF_HUB_OFFLINE") or _is_true("TRANSFORMERS_OFFLINE") or None


def hub_endpoint():
    return _first("HF_ENDPOINT")


def _hub_home():
    home, _ = _first("HF_HOME")
    if home is not None:
        return home
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")


def hub_cache_is_known():
    """Returns True if a folder for the local cache is known."""
    return _first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME")[0]


def hub_token():
    if _is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN"):
        return None, None
    token, name = _first("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    if token is not None and token.strip():
        return token.strip(), name
    path = os.environ.get("HF_TOKEN_PATH") or os.path.join(_hub_home(), "token")
    return _content(path).strip() or None, path


# --- proxies and certificates


def proxy_for(address):
    """Returns the proxy for an address, or None.

    HTTPS_PROXY, HTTP_PROXY or ALL_PROXY is the proxy, except for hosts in NO_PROXY.
    """
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    names = [f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"]
    if "REQUEST_METHOD" in os.environ and scheme == "http":
        names.remove("HTTP_PROXY")  # In a CGI program, a client can set it by the field "Proxy".
    proxy, name = _first(*names)
    if proxy is None:
        return None, None
    authority = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
    if is_exempt(authority.lower(), _first("no_proxy", "NO_PROXY")[0] or ""):
        return None, None
    return proxy if "://" in proxy else "http://" + proxy, name


def is_exempt(authority, exempt):
    """Returns True if a list such as "localhost,.example.com,10.0.0.0/8,a:80" contains the host."""
    host, port = _host_and_port(authority)
    for entry in exempt.split(","):
        entry = entry.strip().lower()
        if entry == "*":
            return True
        if not entry:
            continue
        if "/" in entry:
            if _in_network(host, entry):
                return True
            continue
        name, only_port = _host_and_port(entry)
        name = name.removeprefix("*").removeprefix(".")
        if only_port is not None and only_port != port:
            continue
        if name and (host == name or host.endswith("." + name)):
            return True
    return False


def _host_and_port(authority):
    if authority.startswith("["):
        host, _, port = authority[1:].partition("]")
        return host, port.removeprefix(":") or None
    if authority.count(":") > 1:
        return authority, None
    host, _, port = authority.partition(":")
    return host, port or None


def _in_network(host, network):
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def certificate_file(scheme, address):
    """Returns the file of trusted certificates for an address on the first host.

    REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE may also contain a folder, which is ignored. An http://
    address needs certificates only if it is redirected, so a file that cannot be read is ignored.
    """
    names = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    for name in ("AWS_CA_BUNDLE", *names) if scheme == "s3" else names:
        path = os.environ.get(name)
        if not path or (name in names[1:] and os.path.isdir(path)):
            continue
        is_plain = address.lower().startswith("http://")
        if is_plain and not (os.path.isfile(path) and os.access(path, os.R_OK)):
            continue
        return path, name
    return None, None


# --- S3


def _sections(path):
    import configparser

    parser = configparser.RawConfigParser(default_section="", strict=False, interpolation=None)
    try:
        parser.read_string(_content(path))
    except configparser.Error:
        return {}
    return {" ".join(name.split()): dict(parser[name]) for name in parser.sections()}


def _without_comment(text):
    for mark in (" #", " ;", "\t#", "\t;"):
        text = text.partition(mark)[0]
    return text.strip()


def aws_file_settings(profile=None):
    """Returns the settings of a profile in ~/.aws/credentials and ~/.aws/config.

    The result is a dictionary of region, endpoint, path_style and the key options of the library.
    It has no keys if the profile refers to another source of keys, which only boto3 supports.
    """
    given = profile
    profile = profile or _first("AWS_PROFILE", "AWS_DEFAULT_PROFILE")[0] or "default"
    credentials = os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    config = os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config"
    section = profile if profile == "default" else "profile " + profile
    keys = _sections(credentials).get(profile)
    options = _sections(config).get(section)
    if given is not None and keys is None and options is None:
        raise usage(
            f"aws_profile: there is no profile '{profile}' in {credentials} and {config}"
        )
    keys, options = keys or {}, options or {}
    found = {}
    if _without_comment(options.get("region", "")):
        found["region"] = _without_comment(options["region"])
    if _without_comment(options.get("endpoint_url", "")):
        found["endpoint"] = _without_comment(options["endpoint_url"])
    for line in options.get("s3", "").splitlines():
        name, _, value = line.partition("=")
        style = _without_comment(value)
        if name.strip() == "addressing_style" and style in ("path", "virtual"):
            found["path_style"] = style == "path"
    for source in (keys, options):
        key, secret, token = (
            _without_comment(source.get(name, ""))
            for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        )
        if key and secret:
            found["keys"] = {
                "access_key_id": key,
                "secret_access_key": secret,
                "session_token": token or None,
            }
            break
    return found


def boto3_settings(session, profile):
    """Returns (session, keys, region) of boto3, or None if boto3 is missing.

    Only boto3 supports roles, SSO and key renewal.
    """
    if session is None:
        try:
            import boto3
        except ImportError:
            return None
        try:
            session = boto3.Session(profile_name=profile)
        except Exception as failure:
            if type(failure).__name__ != "ProfileNotFound":
                raise
            raise usage(f"aws_profile: {failure}") from None
    credentials = session.get_credentials()
    if credentials is None:
        return session, {}, session.region_name
    frozen = credentials.get_frozen_credentials()
    keys = {
        "access_key_id": frozen.access_key,
        "secret_access_key": frozen.secret_key,
        "session_token": frozen.token,
    }
    return session, keys, session.region_name

# SPDX-License-Identifier: Apache-2.0
"""Network sources: their settings from options, the environment and the files of other tools.

The settings are read when an operation with a network source begins. A loader of local files reads
no settings.
"""

import os
import threading

from . import _core
from ._cache_reports import CacheReports
from ._environment import aws_file_settings, boto3_settings, certificate_file, hub_cache_is_known
from ._environment import hub_endpoint, hub_token, is_offline, proxy_for
from ._errors import Error, make, usage
from ._names import optional_bool
from ._options import with_sizes

remotes_max = 8  # The largest number of sets of settings that a loader keeps.
_schemes = ("http", "https", "hf", "s3", "gs", "az")
_of_python = ("anonymous", "aws_profile", "boto3_session", "credentials", "on_cached")
_s3_keys = ("access_key_id", "secret_access_key", "session_token")
_not_built = "this ringload was built without remote sources"


def scheme_of(source):
    """Returns the scheme of an address in lower case, or None for a path or a name."""
    scheme, mark, _ = source.partition("://")
    scheme = scheme.lower()
    return scheme if mark and scheme in _schemes else None


def without_secrets(address):
    """Returns an address without user, password, query and fragment, for messages."""
    scheme, mark, rest = address.partition("://")
    authority, slash, path = rest.partition("#")[0].partition("?")[0].partition("/")
    return scheme + mark + authority.rpartition("@")[2] + slash + path


class _PreparedSource(str):
    """The name of a network source.

    It keeps the threads and connections for the source until its operation has ended.
    """

    __slots__ = ("_remote",)

    def __new__(cls, source, remote):
        prepared = super().__new__(cls, source)
        prepared._remote = remote
        return prepared


def _may_be_model(source):
    return "/" in source and source[0] not in "/.~" and not os.path.lexists(source)


class Network:
    """The network sources of one loader.

    options: None allows network sources. True also allows them, and is an error if this ringload
    was built without network sources. A dictionary has settings. False does not use the network.
    """

    def __init__(self, options=None, offline=None):
        self._allowed = options is not False
        has_settings = _is_mapping(options)
        if options and not _core.has_remote:
            raise usage("remote: " + _not_built)
        self._options = with_sizes(dict(options)) if has_settings else {}
        if optional_bool(offline, "offline") is not None:
            self._options["offline"] = offline
        optional_bool(self._options.get("anonymous"), "anonymous")
        self._on_cached = self._options.get("on_cached")
        self._reports = None
        self._remotes = {}  # Keyed by settings, oldest first.
        self._lock = threading.Lock()
        self._session = self._options.get("boto3_session")
        self._is_closed = False
        self.store = None
        if self._allowed and _core.has_remote:
            self.store = _core.Network()
            self._check()

    def _check(self):
        credentials = self._options.get("credentials")
        if credentials is not None and not callable(credentials):
            raise TypeError(f"credentials must be a function, not {type(credentials).__name__}")
        if self._on_cached is not None:
            self._reports = CacheReports(self._on_cached)
        if self._explicit():
            _core.make_remote(self._explicit())  # Refuses unknown settings at once.

    def _explicit(self):
        given = {key: value for key, value in self._options.items() if key not in _of_python}
        if callable(given.get("token")) or given.get("token") in (True, False):
            del given["token"]
        return given

    def prepare(self, source, names=1):
        """Makes `source`, or a list of sources, readable for the loader's engine.

        Returns the source or the list. The operation must keep the result until it has ended.

        names: the number of sources of the operation.
        """
        if isinstance(source, list):
            return [self.prepare(part, len(source)) for part in source]
        scheme = scheme_of(source)
        if scheme is None and not _may_be_model(source):
            return source
        if self.store is None:
            if scheme is not None:
                raise self._refusal(source)
            return source
        if self._is_closed:
            return source
        remote = self._remote(source, scheme)
        self.store.use(source, remote, names)
        return _PreparedSource(source, remote)

    def prepared_for(self, target):
        """Returns `target` and the store that can write this address, or None for a path.

        The operation must keep the target until it has ended.
        """
        if scheme_of(target) is None:
            return target, None
        return self.prepare(target), self.store

    def folder(self, address):
        """Returns the S3 folder of an address with "/" at its end: names and sizes of objects."""
        if self.store is None:
            raise self._refusal(address)
        return _core.find_folder(self._remote(address, "s3"), address)

    def _remote(self, source, scheme):
        settings, origins = self._settings(source, scheme)
        try:
            return self._remote_for(settings)
        except Error as failure:
            raise _with_origin(failure, origins) from None

    def _refusal(self, source):
        hint = _not_built if self._allowed else "remote=False was given"
        shown = without_secrets(source)
        return make("source_not_found", 0, f"{shown}: addresses cannot be read: {hint}", shown)

    def _settings(self, source, scheme):
        """Returns the library's settings for a source, and the variable of each setting."""
        settings = self._explicit()
        origins = {}
        anonymous = bool(self._options.get("anonymous"))

        def default(key, value, origin=None):
            if value is not None and settings.get(key) is None:
                settings[key] = value
                origins[key] = origin

        default("offline", is_offline())
        default("endpoint", *hub_endpoint())
        if anonymous:
            settings["token"] = None
        else:
            token = self._options.get("token")
            if callable(token):
                settings["token"] = token()
            elif token is None or token is True:
                default("token", *hub_token())
        default("cache", "fill" if settings.get("cache_folder") or hub_cache_is_known() else "off")
        if scheme == "s3":
            self._add_s3(settings, default, anonymous)
        elif scheme in ("gs", "az"):
            _add_other_store(settings, default, scheme, anonymous)
        host = _address_of(source, scheme, settings)
        default("proxy", *proxy_for(host))
        default("ca_file", *certificate_file(scheme, host))
        return {key: value for key, value in settings.items() if value is not None}, origins

    def _add_s3(self, settings, default, anonymous):
        given = self._options
        profile = given.get("aws_profile")
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None
        default("region", region, "AWS_REGION")
        for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
            default("s3_endpoint", os.environ.get(name) or None, name)
        from_files = aws_file_settings(profile)
        default("region", from_files.get("region"), "the AWS profile")
        default("s3_endpoint", from_files.get("endpoint"), "endpoint_url of the AWS profile")
        default("path_style", from_files.get("path_style"), "the AWS profile")
        if anonymous:
            for key in _s3_keys:
                settings[key] = None
        elif given.get("credentials") is not None:
            settings.update(_keys_of(given["credentials"]()))
        elif not settings.get("access_key_id"):
            settings.update(self._found_keys(profile, from_files, default))

    def _found_keys(self, profile, from_files, default):
        key, secret = (os.environ.get("AWS_" + name.upper()) for name in _s3_keys[:2])
        if key and secret and profile is None and self._session is None:
            token = os.environ.get("AWS_SESSION_TOKEN") or None
            return {"access_key_id": key, "secret_access_key": secret, "session_token": token}
        found = boto3_settings(self._session, profile)
        if found is None:
            return from_files.get("keys", {})
        self._session, keys, region = found
        default("region", region, "boto3")
        return keys

    def _remote_for(self, settings):
        key = repr(sorted(settings.items()))
        oldest = None  # Its threads end without the lock.
        with self._lock:
            remote = self._remotes.pop(key, None)
            if remote is None:
                if self._reports is not None:
                    settings = {**settings, "on_cached": self._reports.to}
                remote = _core.make_remote(settings)
                if self._reports is not None:
                    self._reports.begin()
            self._remotes[key] = remote
            if len(self._remotes) > remotes_max:
                oldest = self._remotes.pop(next(iter(self._remotes)))
        del oldest
        return remote

    def close(self):
        """Called when the loader's engine is closed."""
        with self._lock:
            self._is_closed = True
            remotes, self._remotes = self._remotes, {}
        remotes.clear()
        if self._reports is not None:
            self._reports.deliver()


def _add_other_store(settings, default, scheme, anonymous):
    """Adds the credentials of Google Cloud Storage or of Azure Blob Storage."""
    of_google = ("gs_access_key_id", "gs_secret_access_key")
    names = of_google if scheme == "gs" else ("azure_sas_token",)
    for name in names:
        variable = name.upper() if scheme == "gs" else "AZURE_STORAGE_SAS_TOKEN"
        if anonymous:
            settings[name] = None
        else:
            default(name, os.environ.get(variable) or None, variable)


def _is_mapping(options):
    if options is None or isinstance(options, bool):
        return False
    if not hasattr(options, "keys"):
        raise TypeError(f"remote must be True, False or a dictionary, not {type(options).__name__}")
    return True


def _keys_of(credentials):
    """Returns the keys from a mapping, or from an object such as botocore's Credentials."""
    if credentials is None:
        raise usage("credentials returned None: set anonymous=True to send no keys")
    if hasattr(credentials, "get_frozen_credentials"):
        credentials = credentials.get_frozen_credentials()
    if hasattr(credentials, "keys"):
        unknown = set(credentials) - set(_s3_keys)
        if unknown:
            raise usage(f"credentials: unknown key '{sorted(unknown)[0]}'")
        return {key: credentials.get(key) for key in _s3_keys}
    try:
        return {
            "access_key_id": credentials.access_key,
            "secret_access_key": credentials.secret_key,
            "session_token": credentials.token,
        }
    except AttributeError:
        raise TypeError(
            "credentials must return a dictionary of access_key_id, secret_access_key and "
            f"session_token, or botocore's Credentials, not {type(credentials).__name__}"
        ) from None


def _address_of(source, scheme, settings):
    """Returns an address on the first host that is contacted."""
    if scheme in ("http", "https"):
        return source
    if scheme == "s3":
        return settings.get("s3_endpoint") or "https://s3.amazonaws.com"
    if scheme == "gs":
        return settings.get("gs_endpoint") or "https://storage.googleapis.com"
    if scheme == "az":
        account = source.partition("://")[2].partition("/")[0]
        return settings.get("azure_endpoint") or f"https://{account}.blob.core.windows.net"
    return settings.get("endpoint") or "https://huggingface.co"


def _with_origin(failure, origins):
    """Replaces the name of a refused setting in the failure by the variable that contains it."""
    for key, origin in origins.items():
        if origin and failure.place == key:
            text = str(failure).replace(key, origin, 1)
            return make(failure.kind, failure.errno or 0, text, origin)
    return failure

# SPDX-License-Identifier: Apache-2.0
"""S3 objects: credentials, names of objects, and local copies."""

import fnmatch
import os
from typing import Any, List, Optional

read_bytes = 8 << 20


class S3Credentials:
    """The credentials of an account. A value of None is found in the environment."""

    def __init__(
        self,
        access_key_id: Optional[str] = None,
        secret_access_key: Optional[str] = None,
        session_token: Optional[str] = None,
        region_name: Optional[str] = None,
        endpoint: Optional[str] = None,
    ) -> None:
        self.access_key_id = access_key_id
        self.secret_access_key = secret_access_key
        self.session_token = session_token
        self.region_name = region_name
        self.endpoint = endpoint


def is_s3_path(path: str) -> bool:
    return path.startswith("s3://")


def is_gs_path(path: str) -> bool:
    return path.startswith("gs://")


def is_azure_path(path: str) -> bool:
    return path.startswith("az://")


def is_object_path(path: str) -> bool:
    return is_s3_path(path) or is_gs_path(path) or is_azure_path(path)


def check_readable(path: str) -> None:
    """Raises ImportError for an unsupported store, as the package without a component does."""
    for is_path, store in ((is_gs_path, "Google's"), (is_azure_path, "Azure's")):
        if is_path(path):
            raise ImportError(f"{path}: ringload does not read {store} store; s3:// is supported")


def folder_of(address: str, credentials: Optional[S3Credentials] = None) -> Any:
    """Returns the folder of an address that ends with "/"."""
    from ..._remote import Network
    from ._settings import remote_options

    return Network(remote_options(credentials)).folder(address)


def with_slash(path: str) -> str:
    return path if path.endswith("/") else path + "/"


def _key(address: str) -> str:
    return address.removeprefix("s3://").partition("/")[2]


def s3_glob(
    path: str,
    allow_pattern: Optional[List[str]] = None,
    s3_credentials: Optional[S3Credentials] = None,
) -> List[str]:
    """Returns the addresses of the objects in a folder, without sub-folders, whose keys match."""
    path = with_slash(path)
    names = [name for name in folder_of(path, s3_credentials).names() if "/" not in name]
    return [path + name for name in _chosen(names, _key(path), allow_pattern, None)]


def _chosen(
    names: List[str], prefix: str, allow: Optional[List[str]], ignore: Optional[List[str]]
) -> List[str]:
    """Returns the names whose keys the patterns select. A key includes the prefix."""
    keys = filter_ignore([prefix + name for name in names], ["*/"])
    if allow is not None:
        keys = filter_allow(keys, allow)
    if ignore is not None:
        keys = filter_ignore(keys, ignore)
    return [key.removeprefix(prefix) for key in keys]


def s3_pull_files(
    model_path: str,
    dst: str,
    allow_pattern: Optional[List[str]] = None,
    ignore_pattern: Optional[List[str]] = None,
    s3_credentials: Optional[S3Credentials] = None,
) -> None:
    """Copies the objects of a folder and its sub-folders to the folder `dst`."""
    model_path = with_slash(model_path)
    folder = folder_of(model_path, s3_credentials)
    for name in _chosen(folder.names(), _key(model_path), allow_pattern, ignore_pattern):
        _copy(folder.open(name), _path_within(dst, name))


def _path_within(folder: str, name: str) -> str:
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, name.lstrip("/")))
    if os.path.commonpath([root, path]) != root:
        raise ValueError(f"the object {name!r} would be written outside of the folder {folder!r}")
    return path


def _copy(found: Any, path: str) -> None:
    """Copies an object. The file appears when it is complete."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    unfinished = f"{path}.{os.getpid()}.part"
    try:
        with open(unfinished, "wb") as file:
            for offset in range(0, found.nbytes, read_bytes):
                file.write(found.read(offset, min(read_bytes, found.nbytes - offset)))
        os.replace(unfinished, path)
    except BaseException:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise


def filter_allow(paths: List[str], patterns: List[str]) -> List[str]:
    return [path for path in paths if any(fnmatch.fnmatch(path, one) for one in patterns)]


def filter_ignore(paths: List[str], patterns: List[str]) -> List[str]:
    return [path for path in paths if not any(fnmatch.fnmatch(path, one) for one in patterns)]


def removeprefix(s: str, prefix: str) -> str:
    return s.removeprefix(prefix)

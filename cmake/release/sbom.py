# SPDX-License-Identifier: Apache-2.0
"""Writes a software bill of materials (SPDX 2.3, JSON) of a release.

    sbom.py SOURCE ARCHIVE OUTPUT

The dependencies are those of SOURCE/vcpkg.json, with the feature that needs each, and those of
SOURCE/pyproject.toml. Versions are those of this machine's Debian packages, which the wheel contains.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

# By vcpkg's name: Debian's package, licence, whether the wheel contains it.
known = {
    "boost-asio": ("libboost1.81-dev", "BSL-1.0", True),
    "boost-beast": ("libboost1.81-dev", "BSL-1.0", True),
    "boost-context": ("libboost-context1.81-dev", "BSL-1.0", False),
    "boost-json": ("libboost-json1.81-dev", "BSL-1.0", False),
    "boost-system": ("libboost1.81-dev", "BSL-1.0", True),
    "boost-url": ("libboost1.81-dev", "BSL-1.0", True),
    "cli11": ("libcli11-dev", "BSD-3-Clause", False),
    "cuda": (None, "LicenseRef-NVIDIA-CUDA-EULA", False),
    "doctest": ("doctest-dev", "MIT", False),
    "expat": ("libexpat1-dev", "MIT", True),
    "fmt": ("libfmt-dev", "MIT", False),
    "hdf5": ("libhdf5-dev", "BSD-3-Clause", True),
    "isal": ("libisal-dev", "BSD-3-Clause", True),
    "liburing": ("liburing-dev", "MIT OR LGPL-2.1-or-later", True),
    "mpi": ("libopenmpi-dev", "BSD-3-Clause", False),
    "openssl": ("libssl-dev", "Apache-2.0", True),
    "zstd": ("libzstd-dev", "BSD-3-Clause", True),
    # libhdf5's own.
    "libaec": ("libaec-dev", "BSD-2-Clause", True),
    "zlib": ("zlib1g-dev", "Zlib", True),
}


def version_of(package):
    command = ["dpkg-query", "-W", "-f=${Version}", package or "-"]
    found = subprocess.run(command, capture_output=True, text=True)
    return found.stdout if found.returncode == 0 and found.stdout else "NOASSERTION"


def dependencies(manifest):
    """The features, "" for the library itself, that need each dependency."""
    needed = {}
    lists = {"": manifest["dependencies"]}
    lists.update({name: one.get("dependencies", []) for name, one in manifest["features"].items()})
    for feature, names in lists.items():
        for dependency in names:
            is_text = isinstance(dependency, str)
            name = dependency if is_text else dependency["name"]
            if (is_text or not dependency.get("host")) and name != "ringload":
                needed.setdefault(name, []).append(feature)
    for name in ("libaec", "zlib"):
        needed[name] = ["hdf5"]
    return needed


def package(name, version, license_text, comment):
    return {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": license_text,
        "copyrightText": "NOASSERTION",
        "comment": comment,
    }


def main():
    source, archive, output = map(pathlib.Path, sys.argv[1:])
    manifest = json.loads((source / "vcpkg.json").read_text())
    own = package("ringload", manifest["version"], "Apache-2.0", "The source archive.")
    own["checksums"] = [{
        "algorithm": "SHA256", "checksumValue": hashlib.sha256(archive.read_bytes()).hexdigest()
    }]  # fmt: skip
    own["packageFileName"] = archive.name
    packages, relations = [own], []
    needed = dependencies(manifest)
    unknown = sorted(set(needed) - set(known))
    if unknown:
        sys.exit(f"sbom.py: add the licence of: {', '.join(unknown)}")
    for name, features in sorted(needed.items()):
        debian, license_text, is_in_wheel = known[name]
        use = ", ".join(feature or "the library" for feature in features)
        text = f"Needed by: {use}. " + ("The wheel contains it." if is_in_wheel else "")
        packages.append(package(name, version_of(debian), license_text, text.strip()))
        relations.append(("SPDXRef-ringload", "DEPENDS_ON", packages[-1]["SPDXID"]))
    python = re.search(r"^dependencies = \[(.*)\]$", (source / "pyproject.toml").read_text(), re.M)
    for text in re.findall(r'"([^"]+)"', python[1]):
        name = re.match(r"[\w-]+", text)[0]
        packages.append(package(name, text[len(name) :] or "NOASSERTION", "BSD-3-Clause",
                                "Needed by: the Python package."))  # fmt: skip
        relations.append(("SPDXRef-ringload", "DEPENDS_ON", packages[-1]["SPDXID"]))
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    created = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    licences = {one["licenseDeclared"] for one in packages}
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"ringload-{manifest['version']}",
        "documentNamespace": f"{manifest['homepage']}/spdx/ringload-{manifest['version']}-"
        + own["checksums"][0]["checksumValue"][:16],
        "creationInfo": {
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: ringload-cmake-sbom.py"],
        },
        "documentDescribes": ["SPDXRef-ringload"],
        "packages": packages,
        "hasExtractedLicensingInfos": [
            {"licenseId": name, "extractedText": "See the licence of the CUDA toolkit."}
            for name in sorted(licences) if name.startswith("LicenseRef-")
        ],
        "relationships": [{
            "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
            "relatedSpdxElement": "SPDXRef-ringload",
        }] + [
            {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
            for a, kind, b in relations
        ],
    }  # fmt: skip
    output.write_text(json.dumps(document, indent=2) + "\n")


main()

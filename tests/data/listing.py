# SPDX-License-Identifier: Apache-2.0
"""What a test expects of a file, beside the file: FILE.manifest, which `ringload verify` reads, and
FILE.list, a line for each tensor: name, dtype, shape, type and original shape, tab-separated."""


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Listing:
    def __init__(self, path):
        self.path = path
        self.rows = []

    def add(self, name, dtype, shape, data, type="", original_shape=""):
        """`data`: the dense, row-major, little-endian bytes."""
        shapes = [str(list(map(int, s))) if s != "" else "" for s in (shape, original_shape)]
        self.rows.append((name, dtype, shapes[0], type, shapes[1], bytes(data)))

    def write(self):
        with open(f"{self.path}.list", "w") as out:
            for row in self.rows:
                out.write("\t".join(row[:5]) + "\n")
        with open(f"{self.path}.manifest", "w") as out:
            for row in self.rows:
                out.write(f"crc32c {crc32c(row[5]):08x}  {row[0]}\n")

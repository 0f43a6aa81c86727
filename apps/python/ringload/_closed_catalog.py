# SPDX-License-Identifier: Apache-2.0
"""The catalog of a closed checkpoint, which has no open files."""


class ClosedCatalog:
    """A copy of the catalog, with the methods of an opened checkpoint of the engine."""

    def __init__(self, opened):
        self._names = opened.names()
        self._infos = opened.infos()
        self._positions = {name: position for position, name in enumerate(self._names)}
        self._metadata = opened.metadata()
        self._files = opened.files()
        self._composites = opened.composites()
        self._notes = opened.notes()

    def __len__(self):
        return len(self._names)

    def names(self):
        return list(self._names)

    def find(self, name):
        position = self._positions.get(name)
        return None if position is None else self._infos[position]

    def infos(self):
        return list(self._infos)

    def metadata(self):
        return list(self._metadata)

    def files(self):
        return list(self._files)

    def composites(self):
        return list(self._composites)

    def notes(self):
        return list(self._notes)

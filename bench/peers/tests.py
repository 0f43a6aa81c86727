# SPDX-License-Identifier: Apache-2.0
"""What of this folder can be tested without a peer: python3 bench/peers/tests.py"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))

import page_cache  # noqa: E402

loader = importlib.machinery.SourceFileLoader("run", str(here / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)


def quietly():
    return contextlib.redirect_stderr(io.StringIO())


class MeasureTest(unittest.TestCase):
    """A page cache that does not get into the state it was put into."""

    how = types.SimpleNamespace(files=["x"], python="", size=1, digest="")

    def test_is_put_into_it_again(self):
        lost = [page_cache.WrongState("3 pages are missing"), None]
        with mock.patch("page_cache.make_warm", side_effect=lost) as make_warm:
            with mock.patch.object(run, "measure_peer", return_value={"seconds": 1}):
                with quietly():
                    self.assertEqual(run.measure("pread-1", "warm", self.how), {"seconds": 1})
        self.assertEqual(make_warm.call_count, 2)

    def test_is_reported_in_the_end(self):
        lost = page_cache.WrongState("3 pages are missing")
        for state in ("cold", "warm"):
            with mock.patch(f"page_cache.make_{state}", side_effect=lost) as make:
                with quietly(), self.assertRaisesRegex(run.Failed, "3 pages are missing"):
                    run.measure("pread-1", state, self.how)
            self.assertEqual(make.call_count, run.attempts_max)


class MakeWarmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file")
        pathlib.Path(self.path).write_bytes(bytes(3 * page_cache._page_bytes))

    def test_reads_again_what_the_cache_lost_meanwhile(self):
        # Empty; two of three pages after the first reading; all after the second.
        with mock.patch("page_cache.pages_cached", side_effect=[0, 2, 3, 3]):
            with mock.patch("page_cache._read_whole") as read:
                page_cache.make_warm([self.path])
        self.assertEqual(read.call_count, 2)

    def test_gives_up_after_a_few_times(self):
        with mock.patch("page_cache.pages_cached", return_value=2):
            with mock.patch("page_cache._read_whole") as read:
                with self.assertRaisesRegex(page_cache.WrongState, "2 of its 3 pages"):
                    page_cache.make_warm([self.path])
        self.assertEqual(read.call_count, page_cache._warmings_max)


if __name__ == "__main__":
    unittest.main()

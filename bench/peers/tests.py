# SPDX-License-Identifier: Apache-2.0
"""What of this folder can be tested without a peer: python3 bench/peers/tests.py"""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))

import chart  # noqa: E402
import page_cache  # noqa: E402
import report  # noqa: E402

loader = importlib.machinery.SourceFileLoader("run", str(here / "run"))
run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
loader.exec_module(run)


def quietly():
    return contextlib.redirect_stderr(io.StringIO())


class MeasureTest(unittest.TestCase):
    """A page cache that does not get into the state it was put into."""

    how = types.SimpleNamespace(files=["x"], forms={"": ["x"]}, python="", size=1, digest="")

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


class RunsBeforeTest(unittest.TestCase):
    """Runs that an earlier call has left."""

    def test_are_added_to(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "runs.json"
            self.assertEqual(run.runs_before(path, ["mmap"], 1)["warm", "mmap"], [])
            runs = {("warm", "mmap"): [{"of": 1}], ("cold", "mmap"): []}
            run.keep_runs(path, runs)
            self.assertEqual(run.runs_before(path, ["mmap", "gguf"], 1)["warm", "mmap"], [{"of": 1}])

    def test_of_another_checkpoint_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "runs.json"
            run.keep_runs(path, {("warm", "mmap"): [{"of": 1}]})
            with quietly(), self.assertRaises(SystemExit):
                run.runs_before(path, ["mmap"], 2)


class CeilingTest(unittest.TestCase):
    def test_is_one_pass_over_the_bytes_of_the_load(self):
        said = ({"gb_per_s": 2.0, "cpu_s_per_gib": 0.5}, {"wall": 9, "of": 1 << 30})
        for state, route in (("cold", "direct"), ("warm", "buffered")):
            with mock.patch("page_cache.prepare"), mock.patch.object(
                run, "measured", return_value=said
            ) as measured:
                found = run.measure_ceiling("uring-bench", state, "x", ["x"], 1 << 30)
            command = measured.call_args.args[0]
            self.assertEqual(command[command.index("--bytes") + 1], str(1 << 30))
            self.assertEqual(command[command.index("--route") + 1], route)
            self.assertAlmostEqual(found["seconds"], (1 << 30) / 2e9)
            self.assertEqual(found["cpu"], 0.5)


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


def some_runs(seconds, version):
    same = {"cpu": 1, "of": 1 << 30, "version": version}
    return [{"seconds": s, "wall": s + 0.5, **same} for s in seconds]


class ChartTest(unittest.TestCase):
    """Is drawn from the text of a page, and so from what report.py prints."""

    def page(self, with_ceiling):
        seconds = {"ceiling": 1, "ringload": 2, "pread-1": 4, "safetensors-touch": 0.1, "runai": 8}
        if not with_ceiling:
            del seconds["ceiling"]
        runs = {}
        for state, factor in (("cold", 1), ("warm", 0.1)):
            for name, middle in seconds.items():
                version = "" if name.startswith("pread") else "0.17.0"
                three = [factor * middle * part for part in (0.5, 1, 1.25)]
                runs[state, name] = some_runs(three, version)
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("2026-01-02; 2 processors; Linux 6. 1 file of 1,073,741,824 bytes. torch 1.")
            for state in ("cold", "warm"):
                report.table(state, list(seconds), runs, "0.1.0")
        return text.getvalue()

    def test_the_tables_are_read_as_they_were_printed(self):
        rows = {row.title: row for row in chart.rows_of(self.page(True), "cold")}
        ours = chart.Row("ringload load", "0.1.0", 0.54, 0.43, 1.07)
        self.assertEqual(rows["ringload load"], ours)
        self.assertEqual(rows["ceiling: plain reads"].speed, 1.07)
        self.assertEqual(rows["plain pread, 1 thread"].name, "plain pread, 1 thread")
        self.assertEqual(rows["ringload load"].name, "ringload 0.1.0")
        warm = chart.rows_of(self.page(True), "warm")
        self.assertEqual([row.speed for row in warm if row.title == "ringload load"], [5.37])

    def test_what_loads_has_a_bar_and_what_does_not_has_none(self):
        svg = chart.draw(self.page(True))
        for text in ("ringload 0.1.0", "Run:ai streamer 0.17.0", ">0.54<", ">5.37<"):
            self.assertIn(text, svg)
        for text in ("touched", "whole process"):
            self.assertNotIn(text, svg)
        self.assertEqual(svg.count("<rect class="), 6)
        self.assertEqual(svg.count("<path class=\"range\""), 6)

    def test_the_ceiling_is_a_line_where_it_was_measured(self):
        svg = chart.draw(self.page(True))
        self.assertEqual(svg.count("<path class=\"ceiling\""), 2)
        self.assertIn("ceiling 1.07", svg)
        self.assertIn("ceiling 10.74", svg)
        self.assertNotIn("<path class=\"ceiling\"", chart.draw(self.page(False)))

    def test_bars_are_as_long_as_their_figures(self):
        svg = chart.draw(self.page(True))
        widths = [float(w) for w in re.findall(r'<rect class=.* width="([\d.]+)"', svg)]
        figures = [float(f) for f in re.findall(r">(\d+\.\d\d)<", svg)]
        self.assertEqual(len(widths), 6)
        for panel in (slice(0, 3), slice(3, 6)):
            scales = [w / f for w, f in zip(widths[panel], figures[panel])]
            for scale in scales:
                self.assertAlmostEqual(scale / scales[0], 1, delta=0.01)

    def test_a_page_without_tables_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no table"):
            chart.draw("2026-01-02; nothing\n")

    def test_the_picture_in_bench_results_is_that_of_its_page(self):
        results = here.parent / "results"
        pictures = sorted(results.glob("*-peers.svg"))
        self.assertTrue(pictures)
        for picture in pictures:
            page = picture.with_suffix(".md").read_text()
            self.assertEqual(picture.read_text(), chart.draw(page), picture.name)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: Apache-2.0
"""Reports the progress of loads and saves to a terminal, a function, or a bar such as tqdm's."""

import sys
import time


def reporter(progress):
    """Returns a function of a dictionary of statistics, or None for no reports.

    progress: True for a line on standard error, a function of a dictionary, an object with `total`
    and `update(count)`, such as a bar of tqdm, or the class of such bars. None and False mean no
    reports.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        return show_progress
    if isinstance(progress, type) and hasattr(progress, "update"):
        return _class_reporter(progress)
    owner = getattr(progress, "__self__", None)
    if _is_bar(owner) and getattr(progress, "__name__", "") == "update":
        progress = owner
    if _is_bar(progress):
        return _bar_reporter(progress)
    if callable(progress):
        return progress
    raise TypeError(
        "progress must be True, a function of a dictionary, or a bar with total and update(), "
        f"not {type(progress).__name__}"
    )


def _is_bar(candidate):
    return hasattr(candidate, "update") and hasattr(candidate, "total")


def _bytes_done(stats):
    return stats.get("bytes_arrived", stats["bytes"])


def _class_reporter(bar_class):
    """Creates a bar at the first report, and closes it when all bytes have arrived."""
    report_to_bar = bar = None

    def report(stats):
        nonlocal report_to_bar, bar
        if bar is None:
            bar = bar_class(total=stats["bytes_total"], unit="B", unit_scale=True)
            report_to_bar = _bar_reporter(bar)
        report_to_bar(stats)
        if _bytes_done(stats) == stats["bytes_total"] and hasattr(bar, "close"):
            bar.close()

    return report


def _bar_reporter(bar):
    reported = 0

    def report(stats):
        nonlocal reported
        if not bar.total:
            bar.total = stats["bytes_total"]
        done = _bytes_done(stats)
        if done != reported:
            bar.update(done - reported)
            reported = done

    return report


def show_progress(stats):
    """Writes a line to standard error. Each call overwrites it."""
    total = stats["bytes_total"]
    done = _bytes_done(stats)
    share = 100 if total == 0 else 100 * done // total
    rate = done / max(stats["seconds"], 1e-9) / 1e9
    sys.stderr.write(f"\r{share:3d} % of {total / 1e9:.2f} GB, {rate:.2f} GB/s")
    if stats["bytes"] == total:
        sys.stderr.write("\n")
    sys.stderr.flush()


def _report_nothing():
    pass


def save_reporter(progress, numbers):
    """Returns a function that reports `numbers()`, a pair (bytes, bytes_total), to `progress`."""
    report = reporter(progress)
    if report is None:
        return _report_nothing
    begin = time.monotonic()

    def report_now():
        done, total = numbers()
        if total:
            seconds = time.monotonic() - begin
            report({"bytes": done, "bytes_total": total, "seconds": seconds})

    return report_now


def reports_nothing(report):
    return report is _report_nothing

# SPDX-License-Identifier: Apache-2.0
"""The medians of a page that report.py wrote, as a picture: bars of GB/s, cold and warm.

The page is what is kept, so the picture is drawn from its text, right after a run or years later.
"""

import dataclasses
import html
import re

width = 860
names_width = 262
panel_width = 226
panel_gap = 66  # For the figure behind a bar.
row_height = 23
bar_height = 15
top = 78

# Nothing is copied there, or it is the row above once more.
not_drawn = ("(", "the same")
style = """
text { font: 13px system-ui, sans-serif; fill: #24292f; paint-order: stroke }
text { stroke: #ffffff; stroke-width: 3px }
.title { font-size: 15px; font-weight: 600 }
.small { font-size: 11px; fill: #57606a }
.bar { fill: #b6bfc9 } .ours { fill: #0a7d5c } .ours-text { font-weight: 600 }
.range { stroke: #57606a; stroke-width: 1 }
.ceiling { stroke: #c2410c; stroke-width: 1.5; stroke-dasharray: 5 3 }
.ceiling-text { fill: #c2410c }
"""


@dataclasses.dataclass(frozen=True)
class Row:
    title: str
    version: str
    speed: float  # GB/s: the median, the least, the most.
    least: float
    most: float

    @property
    def name(self):
        """The version beside the program: "Run:ai streamer 0.17.0, io_uring_direct"."""
        program, comma, how = self.title.removesuffix(" load").partition(",")
        return f"{program} {self.version}".strip() + comma + how


def rows_of(page, state):
    """The rows of the table "Into host memory, STATE", in its order."""
    found = page.split(f"\nInto host memory, {state}:\n", 1)
    if len(found) < 2:
        return []
    table = re.match(r"\s*((?:\|.*\n)+)", found[1])
    rows = []
    for line in table[1].splitlines()[2:]:
        title, version, _, speed, extremes, *_ = (cell.strip() for cell in line.split("|")[1:])
        least, most = (float(end) for end in extremes.split(".. "))
        rows.append(Row(title, version, float(speed), least, most))
    return rows


def heading_of(page):
    """The line that says when and where: it begins with the date."""
    return next((line for line in page.splitlines() if re.match(r"\d{4}-\d\d-\d\d; ", line)), "")


def draw(page):
    tables = {state: rows_of(page, state) for state in ("cold", "warm")}
    ceilings = {state: _ceiling(rows) for state, rows in tables.items()}
    bars = {
        state: {row.name: row for row in rows if not row.title.startswith(("ceiling", *not_drawn))}
        for state, rows in tables.items()
    }
    names = sorted(bars["cold"], key=lambda name: -bars["cold"][name].speed)
    names += [name for name in bars["warm"] if name not in bars["cold"]]
    if not names:
        raise ValueError("the page has no table of loads into host memory")

    height = top + len(names) * row_height + 56
    parts = [f'<text class="title" x="16" y="26">{_escaped(_title(page))}</text>']
    for index, name in enumerate(names):
        ours = ' class="ours-text"' if name.startswith("ringload") else ""
        parts.append(
            f'<text{ours} x="{names_width}" y="{_middle(index) + 4.5}" text-anchor="end">'
            f"{_escaped(name)}</text>"
        )
    for panel, state in enumerate(("cold", "warm")):
        left = names_width + 12 + panel * (panel_width + panel_gap)
        parts += _panel(state, names, bars[state], ceilings[state], left)
    for line, text in enumerate(_caption(page, ceilings)):
        y = height - 31 + 17 * line
        parts.append(f'<text class="small" x="16" y="{y}">{_escaped(text)}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img">\n<style>{style}</style>\n'
        f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff"/>\n{body}\n</svg>\n'
    )


def _ceiling(rows):
    return next((row.speed for row in rows if row.title.startswith("ceiling")), None)


def _title(page):
    size = re.search(r" of ([\d,]+) bytes", heading_of(page))
    gib = f"{int(size[1].replace(',', '')) / (1 << 30):.3g} GiB " if size else ""
    return f"{gib}into host memory, GB/s"


def _caption(page, ceilings):
    drawn = "Medians of GB/s; the thin line is from the least to the most."
    if any(ceilings.values()):
        drawn += " Dashed: plain reads, by uring-bench, into memory that was there before."
    return drawn, re.sub(r"\. \d+ files? of .*", ".", heading_of(page))


def _panel(state, names, bars, ceiling, left):
    # Of the medians: one lucky run does not make all bars short.
    most = max([row.speed for row in bars.values()] + [ceiling or 0])
    scale = panel_width / (1.12 * most) if most else 0
    what = "cold: from the drive" if state == "cold" else "warm: from the page cache"
    parts = [f'<text x="{left}" y="52">{what}</text>']
    for index, name in enumerate(names):
        if name in bars:
            parts += _bar(bars[name], left, _middle(index), scale)
    if ceiling:
        x = left + ceiling * scale
        bottom = top + len(names) * row_height
        parts.append(f'<path class="ceiling" d="M{x:.1f} {top - 8}V{bottom}"/>')
        parts.append(
            f'<text class="small ceiling-text" x="{x:.1f}" y="{top - 12}" text-anchor="middle">'
            f"ceiling {ceiling:.2f}</text>"
        )
    return parts


def _middle(index):
    return top + index * row_height + row_height / 2


def _bar(row, left, middle, scale):
    kind = "bar ours" if row.name.startswith("ringload") else "bar"
    end = left + row.speed * scale
    most = min(left + row.most * scale, left + panel_width)
    return [
        f'<rect class="{kind}" x="{left}" y="{middle - bar_height / 2}"'
        f' width="{row.speed * scale:.1f}" height="{bar_height}" rx="2"/>',
        f'<path class="range" d="M{left + row.least * scale:.1f} {middle}H{most:.1f}"/>',
        f'<text x="{max(end, most) + 6:.1f}" y="{middle + 4.5}">{row.speed:.2f}</text>',
    ]


def _escaped(text):
    return html.escape(text, quote=False)

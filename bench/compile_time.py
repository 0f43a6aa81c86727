#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the compile time of README's program beside a program that uses only Asio.

    bench/compile_time.py [INCLUDE...] [--runs N] [--compiler COMMAND]

Both programs include <boost/asio.hpp> and <iostream>, await an operation in a coroutine and start
the coroutine with co_spawn. The program of Asio awaits a timer. README's program also includes
<ringload/loader.hpp> and awaits a load. A third program is README's program with
<ringload/ringload.hpp>, which includes all headers of the core.

The script compiles the two programs once with each folder INCLUDE of headers, by default with
include/ of this repository. An older copy of include/ is the way to compare two versions. A table
for -O0 and for -O2 has the user time of the compiler: median, least and most, and the ratio of the
medians to the program of Asio. The compilers run one at a time, in an order that is drawn anew for
each round.
"""

import argparse
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile

repository = pathlib.Path(__file__).resolve().parent.parent

asio_program = """\
#include <boost/asio.hpp>
#include <iostream>

namespace asio = boost::asio;

asio::awaitable<void> serve(asio::io_context& server, std::string name) {
  asio::steady_timer timer(server, std::chrono::seconds(1));
  co_await timer.async_wait(asio::use_awaitable);
  std::cout << name << '\\n';
}

int main(int argc, char** argv) {
  asio::io_context server;
  for (int i = 1; i < argc; ++i) {
    asio::co_spawn(server, serve(server, argv[i]), [](std::exception_ptr failure) {
      if (failure) std::rethrow_exception(failure);
    });
  }
  server.run();
}
"""


def readme_program():
    text = (repository / "README.md").read_text()
    found = re.search(r"```cpp\n(.*?)```", text, re.DOTALL)
    if not found or "ringload/loader.hpp" not in found[1] or "asio::co_spawn" not in found[1]:
        sys.exit("README.md: its first program does not load with co_spawn")
    return found[1]


def user_seconds(command):
    compiler = subprocess.Popen(command)
    _, status, usage = os.wait4(compiler.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: exit status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime


def measure(programs, compiler, level, runs):
    """The user seconds of each program, in the order of the rounds."""
    seconds = {name: [] for name in programs}
    for round_number in range(runs):
        order = list(programs)
        random.shuffle(order)
        for name in order:
            command = [*compiler, "-std=c++20", level, "-c", *programs[name], "-o", os.devnull]
            seconds[name].append(user_seconds(command))
        print(f"{level}: round {round_number + 1} of {runs}", file=sys.stderr, flush=True)
    return seconds


def print_table(level, seconds):
    print(f"\n| {level} | median, s | least | most | ratio |\n|---|---|---|---|---|")
    first = statistics.median(next(iter(seconds.values())))
    for name, values in seconds.items():
        median = statistics.median(values)
        cells = f"{median:.2f} | {min(values):.2f} | {max(values):.2f} | {median / first:.2f}"
        print(f"| {name} | {cells} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("include", nargs="*", default=[str(repository / "include")])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--compiler", default="g++", help="such as 'clang++-19'")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asio = pathlib.Path(folder, "asio.cpp")
        asio.write_text(asio_program)
        readme = pathlib.Path(folder, "readme.cpp")
        readme.write_text(readme_program())
        core = pathlib.Path(folder, "core.cpp")
        core.write_text(readme_program().replace("ringload/loader.hpp", "ringload/ringload.hpp"))
        programs = {"Asio": [str(asio)]}
        for include in arguments.include:
            programs[f"loader.hpp, {include}"] = ["-I", include, str(readme)]
            programs[f"ringload.hpp, {include}"] = ["-I", include, str(core)]
        for level in ("-O0", "-O2"):
            print_table(
                level, measure(programs, arguments.compiler.split(), level, arguments.runs)
            )


if __name__ == "__main__":
    main()

// SPDX-License-Identifier: Apache-2.0

// ranks_tool ADDRESS RANK RANKS TIMEOUT_MS own|divided|meet SOURCE OUT CALL...
//
// A rank of a load. Connects to the other ranks at ADDRESS, or by MPI if ADDRESS is "mpi". Makes
// the calls, and writes the result of each call to OUT/RANK.NUMBER: a line with type and shape, or
// "nothing", then the bytes. Prints "ready" when its part is read, and at the end the number of
// bytes that it has read. After a failure, prints the error and exits with 1. A call is a word and
// its arguments, separated by commas:
//
//   tensor,NAME   shard,NAME,DIM   fused,AS,DIM,NAME...   push,NAME,TO
//   model,NAME,NAME...   makes a model of several tensors, and takes the first tensor of the call
//   cancel,RANK,CALL   this call, which that rank cancels once it has begun it
//   repeat,TIMES,CALL  this call, so many times
//   wait               until the end of the standard input
//   fail,RANK          that rank fails, and the others ask whether a rank has failed until one has
//
// With "meet", the ranks only wait for each other, and print "met".

#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <ringload/group_load.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "mpi_ranks.hpp"

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream from(text);
  for (std::string part; std::getline(from, part, ',');) parts.push_back(part);
  return parts;
}

ringload::tensor made_by(ringload::group_load& load, std::vector<std::string> call) {
  const auto number = [&](std::size_t at) {
    return static_cast<std::uint32_t>(std::stoul(call.at(at)));
  };
  if (call.at(0) == "repeat") {
    const std::uint32_t times = number(1);
    call.erase(call.begin(), call.begin() + 2);
    for (std::uint32_t i = 1; i < times; ++i) made_by(load, call);
  }
  const std::string& what = call.at(0);
  if (what == "tensor")
    return load.tensor_async(call.at(1), ringload::as_exception(boost::asio::use_future)).get();
  if (what == "shard")
    return load.shard_async(call.at(1), number(2), ringload::as_exception(boost::asio::use_future))
        .get();
  if (what == "push")
    return load.push_async(call.at(1), number(2), ringload::as_exception(boost::asio::use_future))
        .get();
  if (what == "model") {
    const std::vector<std::string> names(call.begin() + 1, call.end());
    return load.model_async(names, ringload::as_exception(boost::asio::use_future))
        .get()
        .at(names.front());
  }
  if (what == "fused") {
    const std::vector<std::string> names(call.begin() + 3, call.end());
    return load
        .fused_async(call.at(1), names, number(2), ringload::as_exception(boost::asio::use_future))
        .get();
  }
  throw std::invalid_argument("there is no call " + what);
}

// A call is cancelled before it waits for the others, or during this wait.
ringload::tensor made_or_cancelled(ringload::group_load& load, const ringload::group& ranks,
                                   std::vector<std::string> call) {
  if (call.at(0) != "cancel") return made_by(load, call);
  const bool mine = std::stoul(call.at(1)) == ranks.rank();
  call.erase(call.begin(), call.begin() + 2);
  if (!mine) return made_by(load, call);
  boost::asio::cancellation_signal signal;
  auto made = load.tensor_async(
      call.at(1), boost::asio::bind_cancellation_slot(
                      signal.slot(), ringload::as_exception(boost::asio::use_future)));
  signal.emit(boost::asio::cancellation_type::terminal);
  return made.get();
}

[[noreturn]] void fail_or_notice(ringload::group& ranks, const std::vector<std::string>& call) {
  if (std::stoul(call.at(1)) == ranks.rank()) {
    ranks.fail("it gives up");
    throw std::runtime_error("it gives up");
  }
  for (;; ::usleep(1'000)) ranks.check_ranks();
}

void write(const ringload::tensor& made, const std::filesystem::path& to) {
  std::ofstream file(to, std::ios::binary);
  if (!made) {
    file << "nothing\n";
    return;
  }
  file << name(made.dtype());
  for (const std::uint64_t size : made.shape()) file << ' ' << size;
  file << '\n';
  file.write(static_cast<const char*>(made.data()),
             static_cast<std::streamsize>(made.size_bytes()));
}

int run(char** argv, const std::vector<std::string>& calls) {
  const std::string address = argv[1];
  const auto rank = static_cast<std::uint32_t>(std::atoi(argv[2]));
  const auto count = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const std::chrono::milliseconds timeout(std::atoi(argv[4]));
  const std::shared_ptr<ringload::group> ranks =
      address == "mpi" ? mpi_ranks(timeout) : ringload::join_group(address, rank, count, timeout);
  if (std::string(argv[5]) == "meet") {
    ranks->barrier();
    std::printf("met\n");
    return 0;
  }
  ringload::loader_options within;
  within.slots = 2;
  ringload::loader loader(ringload::host(), within);
  ringload::group_options how;
  if (std::string(argv[5]) == "own") how.reading = ringload::group_reading::own;
  ringload::group_load load = ringload::load_async(loader, ranks, argv[6], how,
                                                   ringload::as_exception(boost::asio::use_future))
                                  .get();
  std::printf("ready\n");
  std::fflush(stdout);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    char ignored = 0;
    if (calls[i] == "wait") {
      while (::read(STDIN_FILENO, &ignored, 1) > 0) {
      }
      continue;
    }
    if (calls[i].starts_with("fail,")) fail_or_notice(*ranks, split(calls[i]));
    const std::string name = std::to_string(ranks->rank()) + "." + std::to_string(i);
    write(made_or_cancelled(load, *ranks, split(calls[i])), std::filesystem::path(argv[7]) / name);
  }
  const ringload::load_stats stats = load.stats();
  std::printf("%llu\n", static_cast<unsigned long long>(stats.bytes_direct + stats.bytes_buffered));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) return 2;
  try {
    return run(argv, {argv + 8, argv + argc});
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    std::fflush(stdout);
    // MPI would wait for the other ranks, one of which may have died.
    if (std::string(argv[1]) == "mpi") std::_Exit(1);
    return 1;
  }
}

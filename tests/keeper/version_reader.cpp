// SPDX-License-Identifier: Apache-2.0

// version_reader SOCKET VERSIONS READS: reads the model "m" in a loop, and attaches each new
// version. All elements of tensor ti must be equal to the version plus i. Ends after READS reads
// when the last version has come. A read compares one random element of each tensor.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <ringload/keeper.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t tensor_count = 6;
constexpr std::uint64_t reads_per_question = 500;

struct attached_tensors {
  explicit attached_tensors(const ringload::model& attached) {
    for (std::uint64_t i = 0; i < tensor_count; ++i) {
      values.push_back(attached.at("t" + std::to_string(i)).as<const std::uint64_t>());
    }
  }
  // Returns false if the elements have several versions.
  bool is_whole(std::mt19937_64& random) const {
    const std::uint64_t version = values[0][0];
    for (std::uint64_t i = 0; i < tensor_count; ++i) {
      if (values[i][random() % values[i].size()] != version + i) return false;
    }
    return true;
  }

  std::vector<std::span<const std::uint64_t>> values;
};

int read_versions(const std::string& socket, std::uint64_t last, std::uint64_t reads_min) {
  std::mt19937_64 random(reads_min);
  ringload::model held = ringload::attach(socket, "m");
  std::printf("attached\n");
  std::fflush(stdout);
  std::uint64_t reads = 0;
  std::uint64_t switches = 0;
  for (;;) {
    const attached_tensors tensors(held);
    const std::uint64_t version = tensors.values[0][0];
    const ringload::kept_version current = ringload::attached_version(held);
    while (reads < reads_min || version + 1 < last) {
      if (!tensors.is_whole(random)) {
        std::printf("a mixture at version %llu\n", static_cast<unsigned long long>(version));
        return 1;
      }
      if (++reads % reads_per_question == 0 && ringload::served_version(socket, "m") != current)
        break;
    }
    if (reads >= reads_min && version + 1 >= last) break;
    ringload::model next = ringload::attach_next(socket, "m", current, std::chrono::seconds(60));
    const std::uint64_t next_version = attached_tensors(next).values[0][0];
    if (next_version <= version) {
      std::printf("version %llu after version %llu\n",
                  static_cast<unsigned long long>(next_version),
                  static_cast<unsigned long long>(version));
      return 1;
    }
    held = next;
    ++switches;
  }
  std::printf("whole: %llu reads, %llu switches\n", static_cast<unsigned long long>(reads),
              static_cast<unsigned long long>(switches));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    return read_versions(argv[1], std::strtoull(argv[2], nullptr, 10),
                         std::strtoull(argv[3], nullptr, 10));
  } catch (const std::exception& failure) {
    std::printf("%s\n", failure.what());
    return 1;
  }
}

// SPDX-License-Identifier: Apache-2.0

// Saves tensors that a text describes, for scripts that check the files.
//
//   save_tool MEMORY DESTINATION [--shard-bytes N] [--alignment N] [--given-order] [--read-back]
//             [--dtype NAME] [--metadata KEY=VALUE]... [--threads] [--no-sync] < TENSORS
//
// MEMORY is a file of bytes. TENSORS has a line for each tensor: its dtype, the offset of its first
// element in MEMORY, its shape, its strides in elements, and its name up to the end of the line.
// Shape and strides are numbers, separated by commas. "-" is the shape of a scalar, and "=" means
// dense strides.

#include <boost/asio/use_future.hpp>
#include <fstream>
#include <iostream>
#include <iterator>
#include <ringload/ringload.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ringload;

template <class Number>
std::vector<Number> numbers(const std::string& text) {
  std::vector<Number> out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    out.push_back(static_cast<Number>(std::stoll(one)));
  }
  return out;
}

ringload::dtype dtype_of(const std::string& name) {
  const auto found = dtype_named(name);
  if (!found) throw std::runtime_error("no dtype: " + name);
  return *found;
}

tensor_ref view_in(const std::string& memory, const std::string& line) {
  std::istringstream in(line);
  std::string type;
  std::size_t offset = 0;
  std::string shape;
  std::string strides;
  in >> type >> offset >> shape >> strides;
  in.get();
  tensor_ref out;
  std::getline(in, out.name);
  out.data = memory.data() + offset;
  out.dtype = dtype_of(type);
  if (shape != "-") out.shape = numbers<std::uint64_t>(shape);
  if (strides != "=") out.strides = numbers<std::int64_t>(strides);
  return out;
}

struct settings {
  save_options how;
  loader_options within;
};

settings settings_of(const std::vector<std::string>& words) {
  settings made;
  save_options& how = made.how;
  made.within.slot_bytes = 64 * 1024;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--given-order") {
      how.order = tensor_order::given;
    } else if (word == "--read-back") {
      how.read_back = true;
    } else if (word == "--no-sync") {
      how.sync = false;
    } else if (word == "--threads") {
      made.within.engine = read_engine::threads;
    } else if (i + 1 == words.size()) {
      throw std::runtime_error("what is " + word + "?");
    } else if (word == "--shard-bytes") {
      how.shard_bytes = std::stoull(words[++i]);
    } else if (word == "--alignment") {
      how.alignment = static_cast<std::uint32_t>(std::stoul(words[++i]));
    } else if (word == "--dtype") {
      how.dtype = dtype_of(words[++i]);
    } else if (word == "--metadata") {
      const std::string& pair = words[++i];
      const std::size_t equals = pair.find('=');
      how.metadata.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
    } else {
      throw std::runtime_error("what is " + word + "?");
    }
  }
  return made;
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 2) throw std::runtime_error("usage: save_tool MEMORY DESTINATION ...");
  std::ifstream file(words[0], std::ios::binary);
  const std::string memory{std::istreambuf_iterator<char>(file), {}};
  std::vector<tensor_ref> tensors;
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty()) tensors.push_back(view_in(memory, line));
  }
  const settings s = settings_of({words.begin() + 2, words.end()});
  loader with(host(), s.within);
  with.save_async(words[1], std::move(tensors), s.how, as_exception(boost::asio::use_future)).get();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "save_tool: " << e.what() << std::endl;
    return 1;
  }
}

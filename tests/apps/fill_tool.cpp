// SPDX-License-Identifier: Apache-2.0

// Loads and fills as the commands on standard input say, for tests/data/random_fills.py. A command
// is a line. Words are separated by blanks, and the numbers of a list by commas. An empty list is
// "-".
//
//   open FILE                                     from now on it is about this checkpoint
//   slice TENSOR DIMENSION FIRST COUNT            what of it, for the next load or fill
//   shard GLOB DIMENSION RANK RANKS
//   destination TENSOR DTYPE OFFSET SHAPE STRIDES a place in the memory: of its first element, in
//                                                 bytes; and strides in elements
//   fill BYTES                                    fills new memory of so many bytes, all 0xA5
//   load TENSOR
//
// The last two commands print "ok BYTES" and this number of bytes of the memory or of the tensor,
// or "error TEXT".

#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <exception>
#include <iostream>
#include <ringload/ringload.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace ringload;

template <class Number>
std::vector<Number> list_of(const std::string& text) {
  std::vector<Number> out;
  if (text == "-") return out;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    out.push_back(static_cast<Number>(std::stoll(one)));
  }
  return out;
}

dtype type_of(const std::string& text) {
  const auto type = dtype_named(text);
  if (!type) throw std::invalid_argument("no dtype: " + text);
  return *type;
}

class tool {
 public:
  void run(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "open") {
      std::string file;
      words >> file;
      opened_ = with_.open_async(file, as_exception(boost::asio::use_future)).get();
    } else if (command == "slice" || command == "shard") {
      std::string of;
      std::uint32_t dimension = 0;
      std::uint64_t a = 0;
      std::uint64_t b = 0;
      words >> of >> dimension >> a >> b;
      command == "slice" ? wanted_.slice(of, dimension, a, b)
                         : wanted_.shard(of, dimension, static_cast<std::uint32_t>(a),
                                         static_cast<std::uint32_t>(b));
    } else if (command == "destination") {
      std::string type;
      std::string shape;
      std::string strides;
      destination one;
      std::uint64_t offset = 0;
      words >> one.name >> type >> offset >> shape >> strides;
      one.dtype = type_of(type);
      one.shape = list_of<std::uint64_t>(shape);
      one.strides = list_of<std::int64_t>(strides);
      into_.push_back(std::move(one));
      offsets_.push_back(offset);
    } else if (command == "fill") {
      std::size_t bytes = 0;
      words >> bytes;
      answer([&] { return fill(bytes); });
    } else if (command == "load") {
      std::string name;
      words >> name;
      answer([&] { return load(name); });
    } else {
      throw std::invalid_argument("no command: " + line);
    }
  }

 private:
  std::string fill(std::size_t bytes) {
    std::string memory(bytes, '\xA5');
    for (std::size_t i = 0; i < into_.size(); ++i) into_[i].data = memory.data() + offsets_[i];
    fill_options how;
    how.dtype = fill_options::on_dtype::convert;
    how.shape = fill_options::on_shape::broadcast;
    how.load.select = wanted_;
    with_.fill_async(opened_, into_, how, as_exception(boost::asio::use_future)).get();
    return memory;
  }

  std::string load(const std::string& name) {
    const model loaded =
        with_.load_async(opened_, wanted_, as_exception(boost::asio::use_future)).get();
    const auto bytes = loaded.at(name).as<std::byte>();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  template <class Work>
  void answer(const Work& work) {
    try {
      const std::string bytes = work();
      std::cout << "ok " << bytes.size() << '\n' << bytes << std::flush;
    } catch (const error& failed) {
      std::cout << "error " << failed.what() << std::endl;
    }
    wanted_ = {};
    into_.clear();
    offsets_.clear();
  }

  loader with_;
  checkpoint opened_;
  selection wanted_;
  std::vector<destination> into_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace

int main() {
  try {
    tool one;
    for (std::string line; std::getline(std::cin, line);) one.run(line);
  } catch (const std::exception& failed) {
    std::cerr << "fill_tool: " << failed.what() << '\n';
    return 1;
  }
  return 0;
}

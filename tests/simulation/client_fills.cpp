// SPDX-License-Identifier: Apache-2.0

// Fills of memory.

#include "client.hpp"
#include "support/guarded_memory.hpp"

namespace ringload::simulation {

struct client::filled_memory {
  std::deque<testing::guarded_memory> memory;
  std::vector<destination> into;
  std::vector<const std::string*> expected;
};

void client::fill() { open_then(&client::fill_from); }

void client::fill_from(const known_file& file, const checkpoint& opened, const history& begin) {
  auto filled = std::make_shared<filled_memory>();
  for (const tensor_info& each : opened) {
    const std::string& bytes = file.stored.at(each.name);
    testing::guarded_memory& memory = filled->memory.emplace_back(bytes.size(), random(64));
    filled->into.emplace_back(each.name, memory.data(), each.dtype, each.shape);
    filled->expected.push_back(&bytes);
  }
  fill_options rules;
  rules.load = any_options();
  rules.load.dtype.reset();
  auto handler = token<fill_result>(
      begin_operation(begin), [self = shared_from_this(), filled](bool ok, const fill_result&) {
        self->end_fill(*filled, ok);
        self->next();
      });
  call([&] { program_.any_loader()->fill_async(opened, filled->into, rules, std::move(handler)); });
}

void client::end_fill(filled_memory& filled, bool is_whole) {
  for (std::size_t i = 0; i < filled.memory.size(); ++i) {
    testing::guarded_memory& memory = filled.memory[i];
    if (!memory.guards_are_whole()) violation("a fill wrote beside a tensor");
    if (!is_whole) continue;
    memory.expect(0, *filled.expected[i]);
    if (!memory.as_expected()) violation("a fill left wrong bytes");
  }
}

}  // namespace ringload::simulation

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity on request: between the last byte of a tensor and the news of it, its hash is compared
// with what the manifest says.
//
// The tensors of all loads stand in one line, from which as many coroutines take as there are
// threads to hash with; both are made for the first load that asks. The line is no longer than the
// loads have tensors.

#include <cstdint>
#include <deque>
#include <memory>
#include <ringload/catalog.hpp>
#include <ringload/verify.hpp>
#include <vector>

#include "core/fault.hpp"
#include "pipeline/on_thread.hpp"

namespace ringload::inline v0::detail {

class engine;
class job;

// By tensor of the catalog, what it must hash to; the manifest owns them. Fails where one of the
// two has a tensor that the other lacks, or where a digest cannot be computed.
result<std::vector<const tensor_digest*>> expected_digests(const manifest& listed,
                                                           const ringload::catalog& what);

// Lives in the engine thread.
class checks {
 public:
  struct turn {
    std::shared_ptr<job> of;  // Null: there will be no more turns.
    std::uint32_t tensor = 0;
  };

  explicit checks(boost::asio::io_context& loop) noexcept : waiting_(loop) {}

  // Somebody waits for it: it is checked before those of whom nobody does.
  void add(std::shared_ptr<job> of, std::uint32_t tensor, bool awaited);
  // Those who wait for a tensor, and those who come, are sent home.
  void close();

  boost::asio::awaitable<turn> take();

 private:
  bool next(turn& out);

  std::deque<turn> awaited_;
  std::deque<turn> others_;
  waiting_line waiting_;
  bool closed_ = false;
};

// Takes the next tensor, has it hashed, tells its job, and again.
boost::asio::awaitable<void> checker(engine& e);

}  // namespace ringload::inline v0::detail

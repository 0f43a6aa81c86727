// SPDX-License-Identifier: Apache-2.0
#pragma once

// Handles stored bytes that are not copied unchanged: bytes that are decoded, and constants.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "base/fault.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class engine;
class job;
struct opened_load;

// Decodes the bytes of a read that belong to streams. Each stream is decoded in stream order. The
// slot holds the bytes of the read, and is not used after the return.
boost::asio::awaitable<void> feed_streams(engine& e, job& load, const read_op& read,
                                          std::uint32_t slot, result<void>& outcome);

// Writes the tensor bytes that need no read: elements that are not stored, and bytes from the
// header. Blocks, so it must not be called in the engine thread.
result<void> place_unread(engine& e, opened_load& load);

}  // namespace ringload::inline v0::detail

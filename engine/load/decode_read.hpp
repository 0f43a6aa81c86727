// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes decoded bytes, constants and bytes from file headers to tensors.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "base/fault.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class engine;
class job;
struct opened_load;

// Decodes the bytes of a read that belong to compressed streams. Each stream is decoded in stream
// order. `slot` is the index of the I/O buffer with the read bytes. The buffer is not used after
// completion.
boost::asio::awaitable<void> feed_streams(engine& e, job& load, const read_op& read,
                                          std::uint32_t slot, result<void>& outcome);

// Writes all tensor bytes that no read delivers: constants for elements that are not stored, and
// bytes from file headers. Blocks, and must not be called in the engine thread.
result<void> place_unread(opened_load& load);

}  // namespace ringload::inline v0::detail

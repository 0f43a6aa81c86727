// SPDX-License-Identifier: Apache-2.0
#pragma once

// What is done with stored bytes that are not a tensor's as they are: they are decoded, or
// repeated.

#include <boost/asio/awaitable.hpp>
#include <cstdint>

#include "base/fault.hpp"
#include "plan/plan.hpp"

namespace ringload::inline v0::detail {

class engine;
class job;
struct opened_load;

// Decodes those bytes of a read that belong to streams, each after what comes before it in its
// stream. The slot holds the read's bytes and is not used any more when this returns.
boost::asio::awaitable<void> feed_streams(engine& e, job& of, const read_op& read,
                                          std::uint32_t slot, result<void>& outcome);

// Puts in place what needs no read: elements that are stored nowhere, and bytes that the header
// held. Blocks; in any thread but the engine's.
result<void> place_unread(engine& e, opened_load& work);

}  // namespace ringload::inline v0::detail

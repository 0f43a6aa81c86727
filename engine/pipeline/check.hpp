// SPDX-License-Identifier: Apache-2.0
#pragma once

// Integrity on request: between the last byte of a tensor and the news of it, its hash is compared
// with what the manifest says.
//
// As many coroutines take tensors in turn as there are threads to hash with; both are made for the
// first load that asks.

#include <boost/asio/awaitable.hpp>
#include <ringload/catalog.hpp>
#include <ringload/verify.hpp>
#include <vector>

#include "core/fault.hpp"

namespace ringload::inline v0::detail {

class engine;

// By tensor of the catalog, what it must hash to; the manifest owns them. Fails where one of the
// two has a tensor that the other lacks, or where a digest cannot be computed.
result<std::vector<const tensor_digest*>> expected_digests(const manifest& listed,
                                                           const ringload::catalog& what);

// Takes the next tensor, has it hashed, tells its job, and again.
boost::asio::awaitable<void> checker(engine& e);

}  // namespace ringload::inline v0::detail

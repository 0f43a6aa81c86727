// SPDX-License-Identifier: Apache-2.0
#pragma once

// Errors of MPI calls, and the message in which a rank reports a failure to the other ranks.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ringload/error.hpp>
#include <ringload/mpi.hpp>
#include <string>
#include <string_view>

namespace ringload::inline v0::detail {

inline constexpr int unknown_rank = -1;  // Used if MPI does not report which rank is missing.

inline std::string mpi_rank_name(int rank) {
  return rank == unknown_rank ? "another rank" : "rank " + std::to_string(rank);
}

inline std::string mpi_error_text(int returned) {
  std::array<char, MPI_MAX_ERROR_STRING> text = {};
  int length = 0;
  MPI_Error_string(returned, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

inline void check_mpi(int returned, const char* call) {
  if (returned != MPI_SUCCESS) throw error(errc::rank_failed, call, mpi_error_text(returned));
}

// A message that reports a failure: the number of the failed rank, and the reason.
struct rank_failure {
  std::int32_t rank = 0;
  std::array<char, 1000> reason = {};  // Zero-terminated.
};

inline rank_failure make_rank_failure(int rank, std::string_view reason) noexcept {
  rank_failure out = {rank, {}};
  std::memcpy(out.reason.data(), reason.data(), std::min(reason.size(), out.reason.size() - 1));
  return out;
}

}  // namespace ringload::inline v0::detail

// SPDX-License-Identifier: Apache-2.0

// A stand-in for NCCL, a library that is loaded: its ranks are threads of one process, its device
// the program's stand-in for CUDA. A message is copied to the host, by its rank's stream, and from
// there by the stream of the rank that receives it. Calls of a group are made when it ends, those
// that send first. What it is not given as NCCL's documentation has it, it refuses.

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace {

constexpr int success = 0;
constexpr int unhandled_cuda_error = 1;
constexpr int invalid_argument = 4;
constexpr int remote_error = 6;

using message = std::vector<std::byte>;

struct meeting {
  int ranks = 0;
  int came = 0;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<message>>> sent;  // By from and to.
};

std::mutex guard;
std::condition_variable changed;
std::map<unsigned, std::shared_ptr<meeting>> meetings;
unsigned next_id = 0;
int async_error = success;
// Copies read their memory late.
std::vector<std::shared_ptr<message>> received;

thread_local unsigned open_groups = 0;
thread_local std::vector<std::pair<bool, std::function<int()>>> grouped;

int carry_out(bool sends, std::function<int()> call) {
  if (open_groups == 0) return call();
  grouped.emplace_back(sends, std::move(call));
  return success;
}

bool good(cudaError_t said) {
  if (said != cudaSuccess) (void)cudaGetLastError();
  return said == cudaSuccess;
}

}  // namespace

extern "C" {

struct ncclUniqueId {
  char internal[128];
};

struct ncclComm {
  std::shared_ptr<meeting> in;
  int rank;
};

int ncclGetUniqueId(ncclUniqueId* made) {
  const std::lock_guard lock(guard);
  *made = {};
  const unsigned id = ++next_id;
  std::memcpy(made->internal, &id, sizeof id);
  meetings[id] = std::make_shared<meeting>();
  return success;
}

int ncclCommInitRank(ncclComm** made, int ranks, ncclUniqueId at, int rank) {
  unsigned id = 0;
  std::memcpy(&id, at.internal, sizeof id);
  std::unique_lock lock(guard);
  const auto found = meetings.find(id);
  if (found == meetings.end() || rank < 0 || rank >= ranks) return invalid_argument;
  const std::shared_ptr<meeting> in = found->second;
  in->ranks = ranks;
  ++in->came;
  changed.notify_all();
  changed.wait(lock, [&] { return in->came == in->ranks; });
  *made = new ncclComm{in, rank};
  return success;
}

int ncclCommDestroy(ncclComm* of) {
  delete of;
  return success;
}

int ncclCommAbort(ncclComm* of) {
  delete of;
  return success;
}

int ncclCommGetAsyncError(ncclComm*, int* said) {
  const std::lock_guard lock(guard);
  *said = async_error;
  return success;
}

const char* ncclGetErrorString(int of) {
  return of == remote_error ? "remote process exited or there was a network error"
                            : "what NCCL says about it";
}

int ncclGroupStart() {
  ++open_groups;
  return success;
}

int ncclGroupEnd() {
  if (open_groups == 0) return invalid_argument;
  if (--open_groups > 0) return success;
  const auto calls = std::exchange(grouped, {});
  for (const bool sends : {true, false}) {
    for (const auto& [is_send, call] : calls) {
      if (is_send != sends) continue;
      if (const int failed = call(); failed != success) return failed;
    }
  }
  return success;
}

int ncclSend(const void* from, std::size_t count, int type, int peer, ncclComm* of,
             cudaStream_t on) {
  if (type != 0 || peer < 0 || peer >= of->in->ranks) return invalid_argument;
  return carry_out(true, [=] {
    auto one = std::make_shared<message>(count);
    if (!good(cudaMemcpyAsync(one->data(), from, count, cudaMemcpyDeviceToHost, on)) ||
        !good(cudaStreamSynchronize(on))) {
      return unhandled_cuda_error;
    }
    const std::lock_guard lock(guard);
    of->in->sent[{of->rank, peer}].push_back(std::move(one));
    changed.notify_all();
    return success;
  });
}

int ncclRecv(void* into, std::size_t count, int type, int peer, ncclComm* of, cudaStream_t on) {
  if (type != 0 || peer < 0 || peer >= of->in->ranks) return invalid_argument;
  return carry_out(false, [=] {
    std::shared_ptr<message> one;
    {
      std::unique_lock lock(guard);
      auto& from_peer = of->in->sent[{peer, of->rank}];
      changed.wait(lock, [&] { return !from_peer.empty() || async_error != success; });
      if (from_peer.empty()) return remote_error;
      one = from_peer.front();
      from_peer.pop_front();
      received.push_back(one);
    }
    if (one->size() != count) return invalid_argument;
    return good(cudaMemcpyAsync(into, one->data(), count, cudaMemcpyHostToDevice, on))
               ? success
               : unhandled_cuda_error;
  });
}

int ncclBroadcast(const void* from, void* into, std::size_t count, int type, int root, ncclComm* of,
                  cudaStream_t on) {
  if (of->rank != root) return ncclRecv(into, count, type, root, of, on);
  for (int rank = 0; rank < of->in->ranks; ++rank) {
    if (rank == root) continue;
    if (const int failed = ncclSend(from, count, type, rank, of, on); failed != success) {
      return failed;
    }
  }
  return success;
}

// For tests: what NCCL finds of other ranks.
void fake_nccl_async_error(int of) {
  const std::lock_guard lock(guard);
  async_error = of;
  changed.notify_all();
}
}

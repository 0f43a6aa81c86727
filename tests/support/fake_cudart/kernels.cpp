// SPDX-License-Identifier: Apache-2.0

// The kernels of the library, compiled for the CPU, and a launch that runs them.

// The order matters: the kernels are compiled with the first header.
#include "support/fake_cudart/device_code.hpp"
//
#include "device/cuda/delta_kernels.cu"
#include "device/cuda/kernels.cu"
//
#include "support/fake_cudart/kernel_launch.hpp"

namespace ringload::testing::fake_cudart {

kernel_launch::any_table table_of(const void* kernel, const void* argument) {
  if (kernel == cuda::address_of_boxes()) return *static_cast<const cuda::box_table*>(argument);
  if (kernel == cuda::address_of_change()) {
    return table_of_one<cuda::change_piece>{{*static_cast<const cuda::change_piece*>(argument)}};
  }
  if (kernel == cuda::address_of_sum()) {
    return table_of_one<cuda::sum_piece>{{*static_cast<const cuda::sum_piece*>(argument)}};
  }
  return *static_cast<const cuda::scatter_table*>(argument);
}

namespace {

void call_kernel(const cuda::scatter_table& table) { cuda::scatter(table); }
void call_kernel(const cuda::box_table& table) { cuda::copy_boxes(table); }
void call_kernel(const table_of_one<cuda::change_piece>& table) {
  cuda::change_elements(table.pieces[0]);
}
void call_kernel(const table_of_one<cuda::sum_piece>& table) { cuda::sum_chunks(table.pieces[0]); }

}  // namespace

// The blocks of a kernel have no order, so the last block runs first.
void kernel_launch::run(const any_table& on_processor) const {
  block_size = {threads_per_block, 1};
  grid_size = {blocks, rows};
  for (unsigned b = blocks * rows; b-- > 0;) {
    this_block = {b % blocks, b / blocks};
    for (unsigned t = 0; t < threads_per_block; ++t) {
      this_thread = {t, 0};
      std::visit([](const auto& arguments) { call_kernel(arguments); }, on_processor);
    }
  }
}

}  // namespace ringload::testing::fake_cudart

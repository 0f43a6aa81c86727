// SPDX-License-Identifier: Apache-2.0
#pragma once

// Includes the C++ headers of ringload, except the headers of optional components: cuda.hpp,
// nccl.hpp, hdf5.hpp, mpi.hpp, remote.hpp, hub.hpp, s3.hpp and azure.hpp.

#include <ringload/allocation_log.hpp>
#include <ringload/as_exception.hpp>
#include <ringload/atomic_file.hpp>
#include <ringload/attribute.hpp>
#include <ringload/byte_source.hpp>
#include <ringload/catalog.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/delta.hpp>
#include <ringload/device.hpp>
#include <ringload/diagnostics.hpp>
#include <ringload/dlpack.hpp>
#include <ringload/dtype.hpp>
#include <ringload/error.hpp>
#include <ringload/extension.hpp>
#include <ringload/fill.hpp>
#include <ringload/group.hpp>
#include <ringload/group_load.hpp>
#include <ringload/keeper.hpp>
#include <ringload/load_operation.hpp>
#include <ringload/loader.hpp>
#include <ringload/metrics.hpp>
#include <ringload/model.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/selection.hpp>
#include <ringload/source.hpp>
#include <ringload/stats.hpp>
#include <ringload/tensor.hpp>
#include <ringload/trace.hpp>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>

// SPDX-License-Identifier: Apache-2.0
#pragma once

// All headers of ringload except the components: ringload/cuda.hpp and ringload/hdf5.hpp.

#include <ringload/allocation_log.hpp>
#include <ringload/atomic_file.hpp>
#include <ringload/attribute.hpp>
#include <ringload/catalog.hpp>
#include <ringload/checkpoint.hpp>
#include <ringload/device.hpp>
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
#include <ringload/model.hpp>
#include <ringload/options.hpp>
#include <ringload/save.hpp>
#include <ringload/selection.hpp>
#include <ringload/stats.hpp>
#include <ringload/tensor.hpp>
#include <ringload/trace.hpp>
#include <ringload/verify.hpp>
#include <ringload/writer.hpp>

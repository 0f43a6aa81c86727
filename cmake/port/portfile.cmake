# SPDX-License-Identifier: Apache-2.0
vcpkg_from_github(
  OUT_SOURCE_PATH SOURCE_PATH
  REPO ringload/ringload
  REF "v${VERSION}"
  SHA512 0
  HEAD_REF main)

vcpkg_check_features(OUT_FEATURE_OPTIONS feature_options
  FEATURES
    c RINGLOAD_C
    cuda RINGLOAD_CUDA
    deflate RINGLOAD_DEFLATE
    hdf5 RINGLOAD_HDF5
    mpi RINGLOAD_MPI
    remote RINGLOAD_REMOTE
    tools RINGLOAD_APPS
    zstd RINGLOAD_ZSTD)

set(cuda_options -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
if("cuda" IN_LIST FEATURES)
  vcpkg_find_cuda(OUT_CUDA_TOOLKIT_ROOT cuda_toolkit)
  set(cuda_options
    "-DCMAKE_CUDA_COMPILER=${NVCC}"
    "-DCUDAToolkit_ROOT=${cuda_toolkit}")
endif()

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    ${feature_options}
    ${cuda_options}
    -DRINGLOAD_EXAMPLES=OFF
    -DRINGLOAD_TESTS=OFF
    -DRINGLOAD_BENCH=OFF
    -DRINGLOAD_INSTALL=ON
    -DRINGLOAD_SYSTEMD=OFF
  OPTIONS_DEBUG
    -DRINGLOAD_APPS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/ringload)
vcpkg_fixup_pkgconfig()

set(tools "")
if("tools" IN_LIST FEATURES)
  list(APPEND tools ringload uring-bench)
endif()
if("hdf5" IN_LIST FEATURES)
  list(APPEND tools ringload-hdf5-parse)
endif()
if(tools)
  vcpkg_copy_tools(TOOL_NAMES ${tools} AUTO_CLEAN)
endif()

file(REMOVE_RECURSE
  "${CURRENT_PACKAGES_DIR}/debug/include"
  "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

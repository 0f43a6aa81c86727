# SPDX-License-Identifier: Apache-2.0
#
# Creates Debian packages with `cpack` in the build tree of the preset debian, one for each
# component of the installation. Package names contain the SONAME, so that two minor versions can be
# installed together.

set(soname_version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(RINGLOAD_DEBIAN_MAINTAINER "ringload developers <ringload@users.noreply.github.com>"
  CACHE STRING "The field Maintainer of the Debian packages")
mark_as_advanced(RINGLOAD_DEBIAN_MAINTAINER)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ringload)
set(CPACK_PACKAGE_VENDOR ringload)
set(CPACK_PACKAGE_CONTACT ${RINGLOAD_DEBIAN_MAINTAINER})
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE https://github.com/ringload/ringload)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

get_target_property(kind ringload TYPE)
set(CPACK_COMPONENTS_ALL ringload_dev)
set(library_dependency "")
if(kind STREQUAL SHARED_LIBRARY)
  list(PREPEND CPACK_COMPONENTS_ALL ringload_runtime)
  set(library_dependency "libringload${soname_version} (= ${version})")
endif()
if(TARGET ringload_cli)
  list(APPEND CPACK_COMPONENTS_ALL ringload_tools)
endif()

# Lines of at most 79 characters: the summary is the synopsis, the rest the long description.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "loader of tensor checkpoints through io_uring")
set(about "ringload reads tensor checkpoints (safetensors, GGUF, NumPy, PyTorch, ONNX,
HDF5) from drives and the network into memory.")

set(CPACK_DEBIAN_RINGLOAD_RUNTIME_PACKAGE_NAME libringload${soname_version})
set(CPACK_DEBIAN_RINGLOAD_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RINGLOAD_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # Has no variable of one component.
set(CPACK_DEBIAN_RINGLOAD_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/debian/triggers)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY =)
set(CPACK_COMPONENT_RINGLOAD_RUNTIME_DESCRIPTION
  "${about}\nThis package has the shared libraries.")

set(CPACK_DEBIAN_RINGLOAD_DEV_PACKAGE_NAME libringload-dev)
set(CPACK_DEBIAN_RINGLOAD_DEV_PACKAGE_SECTION libdevel)
set(dev_dependencies ${library_dependency} "libboost-dev (>= 1.81) | libboost1.81-dev"
  liburing-dev)
if(RINGLOAD_DEFLATE)
  list(APPEND dev_dependencies libisal-dev)
endif()
if(RINGLOAD_ZSTD)
  list(APPEND dev_dependencies libzstd-dev)
endif()
list(JOIN dev_dependencies ", " CPACK_DEBIAN_RINGLOAD_DEV_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_RINGLOAD_DEV_PACKAGE_SUGGESTS
  "libexpat1-dev, libhdf5-dev, libssl-dev, libopenmpi-dev")
set(CPACK_COMPONENT_RINGLOAD_DEV_DESCRIPTION
  "${about}\nThis package has what is needed to compile programs in C++ and C.")

set(CPACK_DEBIAN_RINGLOAD_TOOLS_PACKAGE_NAME ringload-tools)
set(CPACK_DEBIAN_RINGLOAD_TOOLS_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_RINGLOAD_TOOLS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RINGLOAD_TOOLS_PACKAGE_DEPENDS ${library_dependency})
set(CPACK_DEBIAN_RINGLOAD_TOOLS_PACKAGE_SUGGESTS "fio, systemd")
set(CPACK_DEBIAN_RINGLOAD_TOOLS_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/debian/postinst ${CMAKE_CURRENT_LIST_DIR}/debian/prerm
  ${CMAKE_CURRENT_LIST_DIR}/debian/postrm)
set(CPACK_COMPONENT_RINGLOAD_TOOLS_DESCRIPTION
  "${about}\nThis package has the programs ringload and uring-bench.")

# The module works for one version of Python.
if(TARGET _core)
  list(APPEND CPACK_COMPONENTS_ALL ringload_python)
  get_directory_property(major DIRECTORY apps/python DEFINITION Python_VERSION_MAJOR)
  get_directory_property(minor DIRECTORY apps/python DEFINITION Python_VERSION_MINOR)
  math(EXPR next_minor "${minor} + 1")
  set(python_dependencies ${library_dependency} "python3 (>= ${major}.${minor})"
    "python3 (<< ${major}.${next_minor})")
  list(JOIN python_dependencies ", " CPACK_DEBIAN_RINGLOAD_PYTHON_PACKAGE_DEPENDS)
endif()
set(CPACK_DEBIAN_RINGLOAD_PYTHON_PACKAGE_NAME python3-ringload)
set(CPACK_DEBIAN_RINGLOAD_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_RINGLOAD_PYTHON_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RINGLOAD_PYTHON_PACKAGE_SUGGESTS python3-numpy)
set(CPACK_DEBIAN_RINGLOAD_PYTHON_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_LIST_DIR}/debian/python/postinst ${CMAKE_CURRENT_LIST_DIR}/debian/python/prerm)
set(CPACK_COMPONENT_RINGLOAD_PYTHON_DESCRIPTION
  "${about}\nThis package has the module ringload for Python 3.")

# dpkg-shlibdeps finds the libraries of this project in the build tree.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/engine)

# Files that only a Debian package has. SOURCE_DATE_EPOCH sets the date.
string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake.in
  ${PROJECT_BINARY_DIR}/debian_files.cmake @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_BINARY_DIR}/debian_files.cmake)

include(CPack)

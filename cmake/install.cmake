# What `make install` puts where: libraries, headers, the pkg-config file, the CMake package, the man page of the
# library. The command installs itself, its man page and its completion (cli/CMakeLists.txt).
#
# Everything installed finds the rest relative to itself, so the tree may be moved, and DESTDIR works.
include(CMakePackageConfigHelpers)

# One version, told twice: here and in the header that programs compare with.
file(STRINGS ${PROJECT_SOURCE_DIR}/include/holdfast.h lines REGEX "^#define HF_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" header_version "${lines}")
string(REPLACE ";" "." header_version "${header_version}")
if(NOT header_version VERSION_EQUAL PROJECT_VERSION)
  message(FATAL_ERROR "holdfast.h says version ${header_version}, CMakeLists.txt says ${PROJECT_VERSION}")
endif()

set(HF_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/Holdfast)
set(HF_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# What a static link needs: the pkg-config modules that src/ and each store have named.
get_property(HF_PC_REQUIRES GLOBAL PROPERTY HF_PC_REQUIRES)
list(REMOVE_DUPLICATES HF_PC_REQUIRES)
# Libraries without a pkg-config module of their own.
get_property(HF_PLAIN_LIBS GLOBAL PROPERTY HF_PLAIN_LIBS)
set_property(
  TARGET holdfast_static
  PROPERTY INTERFACE_LINK_LIBRARIES
           $<BUILD_INTERFACE:$<LINK_ONLY:holdfast_objects>>
           $<INSTALL_INTERFACE:$<LINK_ONLY:PkgConfig::HOLDFAST_DEPS>>
           $<INSTALL_INTERFACE:$<LINK_ONLY:${HF_PLAIN_LIBS}>>
           $<INSTALL_INTERFACE:$<LINK_ONLY:Threads::Threads>>)

# The static library has an export of its own: who uses only the shared one needs none of the modules above.
install(TARGETS holdfast EXPORT HoldfastShared)
install(TARGETS holdfast_static EXPORT HoldfastStatic)
install(EXPORT HoldfastShared NAMESPACE Holdfast:: DESTINATION ${HF_CMAKE_DIR})
install(EXPORT HoldfastStatic NAMESPACE Holdfast:: DESTINATION ${HF_CMAKE_DIR})

install(FILES ${PROJECT_SOURCE_DIR}/include/holdfast.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/holdfast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.h)

file(RELATIVE_PATH HF_PC_TO_PREFIX /p/${HF_PC_DIR} /p)
string(REGEX REPLACE "/$" "" HF_PC_TO_PREFIX ${HF_PC_TO_PREFIX})
list(JOIN HF_PC_REQUIRES " " HF_PC_REQUIRES_TEXT)
# libpq.pc names for a static link what only PostgreSQL's server packages have: libpq itself is linked as shared.
set(HF_PC_MODULES ${HF_PC_REQUIRES})
set(HF_PC_LIBS ${HF_PLAIN_LIBS})
if("libpq" IN_LIST HF_PC_MODULES)
  list(REMOVE_ITEM HF_PC_MODULES libpq)
  list(APPEND HF_PC_LIBS pq)
endif()
list(JOIN HF_PC_MODULES " " HF_PC_MODULES_TEXT)
list(TRANSFORM HF_PC_LIBS PREPEND " -l")
list(JOIN HF_PC_LIBS "" HF_PC_LIBS_TEXT)
configure_file(${CMAKE_CURRENT_LIST_DIR}/holdfast.pc.in ${PROJECT_BINARY_DIR}/holdfast.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/holdfast.pc DESTINATION ${HF_PC_DIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/HoldfastConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/HoldfastConfig.cmake INSTALL_DESTINATION ${HF_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/HoldfastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/HoldfastConfig.cmake ${PROJECT_BINARY_DIR}/HoldfastConfigVersion.cmake
        DESTINATION ${HF_CMAKE_DIR})

# holdfast(3), and one page per function that leads to it: "man hf_acquire" works.
if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man/holdfast.3)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/holdfast.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
  file(STRINGS ${PROJECT_SOURCE_DIR}/include/holdfast.h lines REGEX "^HF_API ")
  foreach(line ${lines})
    string(REGEX MATCH "hf_[a-z_]+\\(" function ${line})
    string(REPLACE "(" "" function ${function})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/man/${function}.3 CONTENT ".so man3/holdfast.3\n")
    install(FILES ${PROJECT_BINARY_DIR}/man/${function}.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
  endforeach()
endif()

# find_package(drystone) defines drystone::drystone (shared) and drystone::static.
get_filename_component(drystone_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET drystone::drystone)
  add_library(drystone::drystone SHARED IMPORTED)
  set_target_properties(drystone::drystone PROPERTIES
    IMPORTED_LOCATION "${drystone_prefix}/lib/libdrystone.so.0"
    IMPORTED_SONAME libdrystone.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${drystone_prefix}/include")
endif()

if(NOT TARGET drystone::static)
  add_library(drystone::static STATIC IMPORTED)
  set_target_properties(drystone::static PROPERTIES
    IMPORTED_LOCATION "${drystone_prefix}/lib/libdrystone.a"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m;gcc_s"
    INTERFACE_INCLUDE_DIRECTORIES "${drystone_prefix}/include")
endif()

set(drystone_FOUND TRUE)

# tenon_dnn: oneDNN for the plugins that use it, a static library in each of them.
#
#   include(${CMAKE_CURRENT_LIST_DIR}/../dnn/dnn.cmake)
#   if(NOT TARGET tenon_dnn)
#     return()
#   endif()
#   tenon_add_plugin(NAME mine ... LINK tenon_dnn)          # #include <dnn/prepared.h>
include_guard(GLOBAL)

find_package(dnnl 2.6 CONFIG QUIET)
if(NOT dnnl_FOUND)
  message(STATUS "kernels and graphs do without oneDNN 2.6: it is not installed (apt: libdnnl-dev)")
  return()
endif()
# Targets of find_package belong to the folder that looked for them, this one to all.
set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_GLOBAL TRUE)

set(sources batched_product convolution convolution_backward engine inner_product packed_weights
  post_ops prepared_batched_product prepared_convolution prepared_inner_product tile transpose)
list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_CURRENT_LIST_DIR}/\\1.cpp")
add_library(tenon_dnn STATIC ${sources})
tenon_plugin_compile_settings(tenon_dnn)
target_include_directories(tenon_dnn PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(tenon_dnn PUBLIC tenon::plugin_api PRIVATE DNNL::dnnl -l:libgomp.so.1)

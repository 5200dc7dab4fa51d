# tenon_loopir: the loop IR of the backends that make code, a static library in each of them.
include_guard(GLOBAL)
set(sources access arguments epilogue fuse indices kernel lower_attention lower_bags lower_convolution_backward lower_copy
  lower_index lower_loss lower_matrix lower_norm lower_pad lower_pointwise lower_pool
  lower_pool_backward lower_reduce lower_resample lower_scan lower_scatter lower_views lowering
  memory nest print take_over unify values verify windows)
list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_CURRENT_LIST_DIR}/\\1.cpp")
add_library(tenon_loopir STATIC ${sources})
tenon_plugin_compile_settings(tenon_loopir)
target_include_directories(tenon_loopir PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(tenon_loopir PUBLIC tenon::plugin_api)

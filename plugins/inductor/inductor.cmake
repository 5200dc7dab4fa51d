# tenon_inductor_runtime: what runs compiled graphs, a static library in the plugin that compiles them
# and in the one that only loads them. Not a byte of LLVM.
#
#   include(${CMAKE_CURRENT_LIST_DIR}/../inductor/inductor.cmake)
#   if(NOT TARGET tenon_inductor_runtime)
#     return()
#   endif()
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/../dnn/dnn.cmake)
if(NOT TARGET tenon_dnn)
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/../loopir/loopir.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/../microkernel/microkernel.cmake)
set(sources attention_call bytes convolution_call convolution_gradient_call cpu_features describe
  epilogue_calls executable extern_call item_facts linked_code memory peaks plain_convolution product_call
  regions runtime_symbols saved_form)
list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_CURRENT_LIST_DIR}/\\1.cpp")
add_library(tenon_inductor_runtime STATIC ${sources})
tenon_plugin_compile_settings(tenon_inductor_runtime)
target_include_directories(tenon_inductor_runtime PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(tenon_inductor_runtime PUBLIC tenon_loopir tenon_dnn tenon_microkernel)

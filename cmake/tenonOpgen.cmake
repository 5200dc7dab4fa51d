# Builds opgen and runs it over the op rows.
#
#   tenon_generate_ops(TARGET target OUTPUT folder ROWS files...)
#
# adds the generated sources to `target`; `folder` must be on its include path. opgen writes a file
# only when its text changes, and Ninja then leaves alone what depends on it.
set(TENON_OPGEN_DIR ${CMAKE_CURRENT_LIST_DIR}/../host/ops/opgen)

# What opgen adds to the host's schema parser; the unit tests link it beside the host.
add_library(tenon_opgen STATIC ${TENON_OPGEN_DIR}/scan.cpp ${TENON_OPGEN_DIR}/cpp_types.cpp
  ${TENON_OPGEN_DIR}/functions.cpp ${TENON_OPGEN_DIR}/write.cpp)
tenon_warnings(tenon_opgen)
target_compile_definitions(tenon_opgen PUBLIC TENON_BUILDING)
target_include_directories(tenon_opgen PUBLIC ${TENON_OPGEN_DIR}/../..
  ${TENON_OPGEN_DIR}/../../include)

add_executable(opgen ${TENON_OPGEN_DIR}/main.cpp ${TENON_OPGEN_DIR}/../schema.cpp
  ${TENON_OPGEN_DIR}/../schema_forms.cpp ${TENON_OPGEN_DIR}/../schema_text.cpp
  ${TENON_OPGEN_DIR}/../../core/error.cpp)
tenon_warnings(opgen)
target_link_libraries(opgen PRIVATE tenon_opgen)

function(tenon_generate_ops)
  cmake_parse_arguments(arg "" "TARGET;OUTPUT" "ROWS" ${ARGN})
  list(SORT arg_ROWS)
  list(JOIN arg_ROWS "\n" names)
  set(list_file ${CMAKE_CURRENT_BINARY_DIR}/op_rows.txt)
  file(CONFIGURE OUTPUT ${list_file} CONTENT "${names}\n" @ONLY)

  set(sources ${arg_OUTPUT}/ops/op_families.cpp)
  foreach(part RANGE 3)
    list(APPEND sources ${arg_OUTPUT}/ops/ops_${part}.cpp)
  endforeach()
  set(headers ${arg_OUTPUT}/ops/op_ids.h ${arg_OUTPUT}/tenon/ops.h
    ${arg_OUTPUT}/tenon/result_names.inc ${arg_OUTPUT}/tenon/results.inc
    ${arg_OUTPUT}/tenon/tensor_methods.inc)
  foreach(row IN LISTS arg_ROWS)
    cmake_path(GET row PARENT_PATH room)
    cmake_path(GET room FILENAME room)
    list(APPEND rooms ${room})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  list(REMOVE_ITEM rooms sym)  # ops on numbers: no functions
  list(TRANSFORM rooms REPLACE "(.+)" "${arg_OUTPUT}/tenon/ops/\\1.h")
  list(APPEND headers ${rooms})
  add_custom_command(OUTPUT ${sources} ${headers}
    COMMAND opgen --out ${arg_OUTPUT} @${list_file}
    DEPENDS opgen ${list_file} ${arg_ROWS}
    COMMENT "Reading the op rows" VERBATIM)
  add_custom_target(tenon_generated_ops DEPENDS ${sources} ${headers})
  add_dependencies(${arg_TARGET} tenon_generated_ops)
  target_sources(${arg_TARGET} PRIVATE ${sources} ${headers})
endfunction()

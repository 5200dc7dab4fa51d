# Minifies GRAPH on BACKEND: at most five nodes are left, OP among them, which fail alike when they
# are run again.
file(REMOVE_RECURSE ${FOLDER})
execute_process(COMMAND ${TENON} minify ${GRAPH} --backend ${BACKEND} --plugin-path ${PLUGINS}
  -o ${FOLDER} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
if(NOT status EQUAL 1 OR NOT out MATCHES "(^|\n)[1-5] of [0-9]+ nodes fail alike: .*${FAILURE}")
  message(FATAL_ERROR "minify ended with ${status}:\n${out}${err}")
endif()
file(READ ${FOLDER}/graph.tng graph)
if(NOT graph MATCHES "${OP}")
  message(FATAL_ERROR "${OP} is not what was left:\n${graph}")
endif()
get_filename_component(folder_of_program ${TENON} DIRECTORY)
set(ENV{PATH} "${folder_of_program}:$ENV{PATH}")
execute_process(COMMAND sh ${FOLDER}/command.sh RESULT_VARIABLE again
  OUTPUT_QUIET ERROR_QUIET)
if(again EQUAL 0)
  message(FATAL_ERROR "${FOLDER}/command.sh does not fail")
endif()

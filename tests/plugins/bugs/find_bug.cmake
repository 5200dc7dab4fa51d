# Minifies and bisects MODEL on BACKEND with OPTIONS: at most five nodes are left, OP among them, and
# fail alike when their folder's command runs them again; bisect names the backend as the stage, PART
# of it, and OP.
file(REMOVE_RECURSE ${FOLDER})
set(arguments --backend ${BACKEND} --plugin-path ${PLUGINS} ${OPTIONS})
execute_process(COMMAND ${TENON} minify ${MODEL} ${arguments} -o ${FOLDER}
  RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE progress)
if(NOT status EQUAL 1 OR NOT out MATCHES "(^|\n)[1-5] of [0-9]+ nodes fail alike: .*${FAILURE}")
  message(FATAL_ERROR "minify ended with ${status}:\n${out}${progress}")
endif()
if(NOT progress MATCHES "nodes?, [0-9]+ inputs?, [0-9]+ outputs?, [0-9]+ elements? after [0-9]+ tries")
  message(FATAL_ERROR "minify told nothing of its progress:\n${progress}")
endif()
file(READ ${FOLDER}/graph.tng graph)
if(NOT graph MATCHES "${OP}")
  message(FATAL_ERROR "${OP} is not what was left:\n${graph}")
endif()

# The folder runs as it would on another machine: in another place, in a process that has nothing of
# our environment; and it names nothing outside of itself.
get_filename_component(program_folder ${TENON} DIRECTORY)
set(as_elsewhere env -i "PATH=${program_folder}:$ENV{PATH}" "ASAN_OPTIONS=$ENV{ASAN_OPTIONS}"
  "TSAN_OPTIONS=$ENV{TSAN_OPTIONS}")
file(REMOVE_RECURSE ${FOLDER}_moved)
file(RENAME ${FOLDER} ${FOLDER}_moved)
file(READ ${FOLDER}_moved/command.sh command)
if(command MATCHES "'/" OR NOT command MATCHES "--plugin 'plugins/")
  message(FATAL_ERROR "the plugin is not named in its folder:\n${command}")
endif()
execute_process(COMMAND ${as_elsewhere} sh ${FOLDER}_moved/command.sh WORKING_DIRECTORY / TIMEOUT 5 RESULT_VARIABLE again
  OUTPUT_QUIET ERROR_VARIABLE error)
if(again EQUAL 0)
  message(FATAL_ERROR "${FOLDER}_moved/command.sh does not fail")
endif()
if(FAILURE MATCHES "output|gradient" AND NOT (again EQUAL 9 AND error MATCHES "${FAILURE}"))
  message(FATAL_ERROR "${FOLDER}_moved/command.sh fails otherwise: ${again}\n${error}")
endif()

execute_process(COMMAND ${TENON} bisect ${MODEL} ${arguments} -q
  RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE error)
if(NOT status EQUAL 1 OR NOT out MATCHES "begins at stage ${BACKEND}${PART}, with .*${OP}")
  message(FATAL_ERROR "bisect ended with ${status}:\n${out}${error}")
endif()

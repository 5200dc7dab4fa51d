# Results of a model under `deterministic`, with one thread and with more: the same bytes.
set(first "")
foreach(threads 1 2 3 7)
  set(file ${FOLDER}/outputs-${threads}.safetensors)
  execute_process(COMMAND ${TENON} run ${MODEL} --backend inductor --threads ${threads}
    --set inductor.deterministic=true --outputs ${file}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE errors)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${MODEL} with ${threads} threads ended with ${status}: ${errors}")
  endif()
  file(SHA256 ${file} digest)
  file(REMOVE ${file})
  if(NOT first)
    set(first ${digest})
  elseif(NOT digest STREQUAL first)
    message(FATAL_ERROR "${MODEL}: ${threads} threads give other bits than one")
  endif()
endforeach()

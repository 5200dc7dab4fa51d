# tenon_embed(TARGET target FUNCTION name HEADER header NAMESPACE namespace BASE folder FILES ...): the
# files become part of the target, as the function `name` of that header.
function(tenon_embed)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET;FUNCTION;HEADER;NAMESPACE;BASE" "FILES")
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${arg_FUNCTION}.cpp)
  list(JOIN arg_FILES "|" files)
  add_custom_command(OUTPUT ${output} DEPENDS ${script} ${arg_FILES} VERBATIM
    COMMENT "Embedding ${arg_FUNCTION}"
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DFUNCTION=${arg_FUNCTION} -DHEADER=${arg_HEADER}
      -DNAMESPACE=${arg_NAMESPACE} -DBASE=${arg_BASE} "-DFILES=${files}" -P ${script})
  target_sources(${arg_TARGET} PRIVATE ${output})
endfunction()

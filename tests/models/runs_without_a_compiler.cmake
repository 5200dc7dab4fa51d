# A model compiled ahead of time, in a folder of its own with the program and the plugins that run it
# and without the one that compiles: the results have the same bits as those of the compiled archive,
# and no library of LLVM is loaded. Damaged files end with status 3 and one sentence.
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER}/bin ${FOLDER}/lib/tenon/plugins)
file(COPY ${TENON} DESTINATION ${FOLDER}/bin)
get_filename_component(bin ${TENON} DIRECTORY)
foreach(plugin inductor_run kernels_onednn)
  if(EXISTS ${bin}/../lib/tenon/plugins/tenon_${plugin}.so)
    file(COPY ${bin}/../lib/tenon/plugins/tenon_${plugin}.so
         DESTINATION ${FOLDER}/lib/tenon/plugins)
  endif()
endforeach()
set(file ${FOLDER}/model.tenon)
set(alone ${CMAKE_COMMAND} -E env --unset=TENON_PLUGIN_PATH ${FOLDER}/bin/tenon)

function(expect_status expected what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output
                  ERROR_VARIABLE errors)
  if(NOT status EQUAL expected)
    message(FATAL_ERROR "${what}: expected status ${expected}, found ${status}: ${errors}${output}")
  endif()
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

# With recorded inputs where there are some: random ones do not suit every model.
get_filename_component(name ${MODEL} NAME_WE)
get_filename_component(models ${MODEL} DIRECTORY)
set(inputs "")
if(EXISTS ${models}/${name}.io.safetensors)
  set(inputs --inputs ${models}/${name}.io.safetensors)
endif()

expect_status(0 "compiling" ${TENON} compile ${MODEL} -o ${file} --backend inductor)
expect_status(0 "the archive" ${TENON} run ${MODEL} ${inputs} --backend inductor
  --outputs ${FOLDER}/compiled.safetensors)
expect_status(0 "the file alone" ${CMAKE_COMMAND} -E env --unset=TENON_PLUGIN_PATH LD_DEBUG=files
  ${FOLDER}/bin/tenon run ${file} ${inputs} --outputs ${FOLDER}/loaded.safetensors)
if(NOT errors MATCHES "tenon_inductor_run")
  message(FATAL_ERROR "the plugin that runs compiled code was not loaded:\n${errors}")
endif()
if(errors MATCHES "libLLVM")
  message(FATAL_ERROR "a library of LLVM was loaded")
endif()
file(SHA256 ${FOLDER}/compiled.safetensors compiled)
file(SHA256 ${FOLDER}/loaded.safetensors loaded)
if(NOT compiled STREQUAL loaded)
  message(FATAL_ERROR "the file gives other bits than the archive")
endif()

# With its recordings beside it, also of other sizes.
foreach(kind "" ".alt")
  if(EXISTS ${models}/${name}${kind}.io.safetensors)
    file(COPY_FILE ${models}/${name}${kind}.io.safetensors
         ${FOLDER}/model${kind}.io.safetensors)
  endif()
endforeach()
if(EXISTS ${FOLDER}/model.io.safetensors)
  expect_status(0 "the recordings" ${alone} check ${file} -q)
endif()

# Who may have written machine code is asked as for plugins.
file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE WORLD_READ WORLD_WRITE)
expect_status(4 "a file that anybody may write" ${alone} run ${file})
if(NOT errors MATCHES "holds machine code and is refused")
  message(FATAL_ERROR "the reason is missing: ${errors}")
endif()

file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ GROUP_WRITE)
execute_process(COMMAND ${alone} run ${file} OUTPUT_QUIET ERROR_VARIABLE errors)
if(errors MATCHES "is refused" OR
   NOT errors MATCHES "holds machine code, and .* may be written by group")
  message(FATAL_ERROR "the warning is missing: ${errors}")
endif()
expect_status(4 "the same where trust is strict" ${alone} run ${file} --set plugins.trust=strict)
file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE)
file(MAKE_DIRECTORY ${FOLDER}/open)
file(CHMOD ${FOLDER}/open PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
     WORLD_READ WORLD_WRITE WORLD_EXECUTE)
file(CREATE_LINK ${file} ${FOLDER}/open/link.tenon SYMBOLIC)
expect_status(4 "a link in a folder that is open to all" ${alone} run ${FOLDER}/open/link.tenon)

# Without the plugin that runs it.
file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE)
file(REMOVE ${FOLDER}/lib/tenon/plugins/tenon_inductor_run.so)
expect_status(4 "without a plugin" ${alone} run ${file})
if(NOT errors MATCHES "needs a plugin that runs it, and none is installed")
  message(FATAL_ERROR "the reason is missing: ${errors}")
endif()

# Cut off, and no such file.
execute_process(COMMAND head -c 5000 ${file} OUTPUT_FILE ${FOLDER}/short.tenon)
expect_status(3 "a file that is cut off" ${alone} run ${FOLDER}/short.tenon)
expect_status(3 "a missing file" ${alone} run ${FOLDER}/missing.tenon)
expect_status(2 "a backend beside the code" ${alone} run ${file} --backend eager)

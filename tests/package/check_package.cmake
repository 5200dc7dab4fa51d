# Checks an installation from outside: what users and authors of plugins do first.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "ended with ${status}: ${line}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

function(expect what text)
  string(FIND "${output}" "${text}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${what}: expected '${text}' in\n${output}")
  endif()
endfunction()

# Builds the project in `source` in a folder of its own and knows nothing but the prefix.
function(build name source)
  set(flags -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC}
    -DCMAKE_BUILD_TYPE=${BUILD_TYPE})
  if(SANITIZE)
    list(APPEND flags "-DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE}"
      "-DCMAKE_C_FLAGS=-fsanitize=${SANITIZE}")
  endif()
  run(${CMAKE_COMMAND} -G Ninja -S ${source} -B ${WORK}/${name} ${flags} ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK}/${name} --parallel 2)
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
# The installed files must not need the tree that they were built in.
run(${prefix}/bin/tenon backends --all --json)
expect("the installed program finds the installed plugins" ${prefix}/${LIBDIR}/tenon/plugins/)

foreach(page man/man1/tenon.1 bash-completion/completions/tenon zsh/site-functions/_tenon
        fish/vendor_completions.d/tenon.fish)
  file(READ ${prefix}/share/${page} text)
  string(FIND "${text}" "explain" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${page}: expected the verb explain in it")
  endif()
endforeach()

# The licence, and the pages with the links that README.md has to them.
file(READ ${prefix}/share/doc/tenon/LICENSE text)
string(FIND "${text}" "Apache License" at)
if(at EQUAL -1)
  message(FATAL_ERROR "LICENSE: expected the Apache License in it")
endif()
file(READ ${prefix}/share/doc/tenon/README.md text)
string(REGEX MATCHALL "docs/[a-z-]+[.]md" pages "${text}")
foreach(page LICENSE CONTRIBUTING.md SECURITY.md ${pages})
  if(NOT EXISTS ${prefix}/share/doc/tenon/${page})
    message(FATAL_ERROR "README.md names ${page}: expected it in share/doc/tenon")
  endif()
endforeach()
foreach(file tenon/tenonConfig tenon/tenonConfigVersion TenonPluginApi/TenonPluginApiConfig
        TenonPluginApi/TenonPlugin)
  if(NOT EXISTS ${prefix}/${LIBDIR}/cmake/${file}.cmake)
    message(FATAL_ERROR "expected ${LIBDIR}/cmake/${file}.cmake in the installation")
  endif()
endforeach()

build(app ${SOURCE}/tests/package/app)
run(${WORK}/app/app aot_eager)
expect("the program runs" "aot_eager: 1 compile")
run(${CMAKE_COMMAND} --build ${WORK}/app --target printed)
expect("the compiler warns of an item that is printed as it lies" "-Wformat")

build(examples ${SOURCE}/examples/01_compile)
run(${WORK}/examples/example_moments)
build(run_pt2 ${SOURCE}/examples/03_run_pt2)
run(${WORK}/run_pt2/example_run_pt2 ${SOURCE}/tests/data/models/mlp_digits.pt2)
expect("a model tells what it takes" "takes x: f32[s77, 64] with s77 from 1 to 512")

build(train ${SOURCE}/examples/02_train)
run(${WORK}/train/example_train ${SOURCE}/tests/data/nn/few_digits.safetensors --epochs 1
    --svg ${WORK}/training.svg)
expect("a network is trained" "epoch  1/1 loss ")

build(own_op ${SOURCE}/examples/05_own_op)
run(${WORK}/own_op/example_own_op)
expect("an op of the program's own is compiled" "aot_eager: ")

# A plugin of ours, built as anybody else's: with the plugin API alone.
build(plugin ${SOURCE}/tests/package/plugin -DPLUGIN=${SOURCE}/plugins/print)
set(ENV{TENON_PLUGIN_PATH} ${WORK}/plugin/plugins)
run(${prefix}/bin/tenon backends --all --json)
expect("the plugin of the path comes first" ${WORK}/plugin/plugins/tenon_print.so)
run(${WORK}/app/app print)
expect("the plugin prints the graph" "aten.relu.default")
expect("the program runs with the plugin" "print: 1 compile")

# One of ours that needs what is not installed: left out in one line, and the rest goes on.
run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE}/tests/package/plugin -B ${WORK}/left_out
  -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC}
  -DPLUGIN=${SOURCE}/plugins/inductor -DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON)
string(REGEX MATCHALL "inductor is left out: LLVM 19[^\n]*" lines "${output}")
list(LENGTH lines count)
if(NOT count EQUAL 1)
  message(FATAL_ERROR "a missing LLVM is told in one line: found ${count} in\n${output}")
endif()

# A plugin with kernels or ops of nobody yet: written, built and checked.
foreach(kind kernels ops)
  set(project ${WORK}/begun_${kind})
  run(${prefix}/bin/tenon plugin new begun_${kind} --${kind} --folder ${project})
  build(begun_${kind}_build ${project})
  run(${prefix}/bin/tenon plugin check ${WORK}/begun_${kind}_build/plugins/tenon_begun_${kind}.so
    --quick)
  expect("a new plugin with ${kind} keeps the rules" "begun_${kind} conformant")
endforeach()

# A plugin of nobody yet: written, built, checked and used, in both languages.
foreach(language c++ c)
  string(REPLACE "+" "p" name "begun_in_${language}")
  set(project ${WORK}/${name})
  run(${prefix}/bin/tenon plugin new ${name} --language ${language} --folder ${project})
  build(${name}_build ${project})
  set(plugins ${WORK}/${name}_build/plugins)
  run(${prefix}/bin/tenon plugin check ${plugins}/tenon_${name}.so --quick)
  expect("a new plugin keeps the rules" "${name} conformant")
  run(${CMAKE_CTEST_COMMAND} --test-dir ${WORK}/${name}_build --output-on-failure)
  expect("the test of a new plugin runs" "plugin_check_tenon_${name}")
  run(${prefix}/bin/tenon backends --all --plugin-path ${plugins})
  expect("a new plugin is listed" ${plugins}/tenon_${name}.so)
  run(${prefix}/bin/tenon check ${SOURCE}/tests/data/models --plugin-path ${plugins} --backend ${name})
  expect("models run on a new plugin" " 0 failed")
endforeach()

# SPDX-License-Identifier: Apache-2.0
# tenon_add_plugin: builds one plugin, a shared object that exports its entry and nothing else.
#
#   tenon_add_plugin(NAME mine MANIFEST plugin.toml SOURCES mine.cpp
#                    [LINK libraries...] [NO_INSTALL])
#
# makes the target tenon_mine and the file tenon_mine.so in TENON_PLUGIN_OUTPUT_DIRECTORY (default
# <build>/plugins), installed to lib/tenon/plugins. MANIFEST may be left out when a source file
# holds it with TN_MANIFEST.
#
#   tenon_add_plugin_check(TARGET tenon_mine [ARGUMENTS --level 2 ...])
#
# adds the test plugin_check_tenon_mine, which runs the conformance kit (`tenon plugin check`) on the
# plugin: with the `tenon` of TENON_PROGRAM, of the installation that this file belongs to, or of
# PATH. Without any there is no test.
include_guard(GLOBAL)

function(tenon_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "NO_INSTALL" "NAME;MANIFEST" "SOURCES;LINK")
  if(NOT arg_NAME MATCHES "^[a-z][a-z0-9_]*$" OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_plugin: expected NAME (lower case, digits, _) and SOURCES, "
      "optionally MANIFEST, LINK, NO_INSTALL; got: ${ARGV}")
  endif()
  set(target tenon_${arg_NAME})
  add_library(${target} MODULE ${arg_SOURCES})
  if(arg_MANIFEST)
    tenon_plugin_note(${target} ${arg_NAME} ${arg_MANIFEST})
  endif()
  tenon_plugin_compile_settings(${target})
  tenon_plugin_link_settings(${target})
  target_link_libraries(${target} PRIVATE tenon::plugin_api ${arg_LINK})

  if(NOT TENON_PLUGIN_OUTPUT_DIRECTORY)
    set(TENON_PLUGIN_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins)
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ".so" OUTPUT_NAME ${target}
    LIBRARY_OUTPUT_DIRECTORY ${TENON_PLUGIN_OUTPUT_DIRECTORY} INSTALL_RPATH "")
  if(NOT arg_NO_INSTALL)
    include(GNUInstallDirs)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/plugins
      COMPONENT plugins)
  endif()
endfunction()

function(tenon_add_plugin_check)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "ARGUMENTS")
  if(NOT TARGET "${arg_TARGET}" OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_plugin_check: expected TARGET, the target that tenon_add_plugin "
      "made (tenon_NAME), and optionally ARGUMENTS; got: ${ARGV}")
  endif()
  if(TARGET tenon_cli)
    set(program $<TARGET_FILE:tenon_cli>)
  else()
    find_program(TENON_PROGRAM tenon HINTS "${TENON_PLUGIN_API_PREFIX}/bin")
    set(program ${TENON_PROGRAM})
  endif()
  if(NOT program)
    message(STATUS "no test for ${arg_TARGET}: the program `tenon` was not found (TENON_PROGRAM)")
    return()
  endif()
  add_test(NAME plugin_check_${arg_TARGET}
    COMMAND ${program} plugin check $<TARGET_FILE:${arg_TARGET}> ${arg_ARGUMENTS})
endfunction()

# Adds a generated source that holds the manifest as an ELF note: the host reads it without loading
# anything, and it survives strip, --gc-sections and LTO.
function(tenon_plugin_note target name manifest)
  get_filename_component(manifest ${manifest} ABSOLUTE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest})
  get_filename_component(manifest_name ${manifest} NAME)
  file(SIZE ${manifest} size)
  if(size GREATER 65536)
    message(FATAL_ERROR "${manifest}: ${size} bytes; a manifest has at most 65536")
  endif()
  file(STRINGS ${manifest} name_line REGEX "^name *= *[\"']${name}[\"']" LIMIT_COUNT 1)
  file(STRINGS ${manifest} inline_name REGEX "^plugin *=.*name *= *[\"']${name}[\"']" LIMIT_COUNT 1)
  if(NOT name_line AND NOT inline_name)
    message(FATAL_ERROR
      "${manifest}: expected [plugin] name = \"${name}\", the NAME of tenon_add_plugin")
  endif()

  file(READ ${manifest} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")
  math(EXPR padded "((${size} + 3) / 4) * 4")
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  set(suffix cpp)
  if("C" IN_LIST languages)
    set(suffix c)
  endif()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_manifest.${suffix})
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"/* The manifest @manifest_name@ as an ELF note. */
#include <tenon/plugin.h>
__attribute__((used, section(\".note.tenon\"), aligned(4))) static const struct {
  uint32_t namesz, descsz, type;
  char name[8];
  unsigned char desc[@padded@];
} tenon_manifest_note = {6, @size@, TN_NOTE_TYPE, \"Tenon\", {
@bytes@}};
")
  target_sources(${target} PRIVATE ${source})
endfunction()

function(tenon_plugin_compile_settings target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  if(COMMAND tenon_warnings)
    tenon_warnings(${target})
  endif()
endfunction()

# RTLD_LOCAL does not keep two plugins apart (statics of inline functions are unique symbols, and a
# name that the program exports captures all plugins); a version script does.
function(tenon_plugin_link_settings target)
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: tenon_plugin_entry_v1; local: *; };\n")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${script})
  target_link_options(${target} PRIVATE
    "SHELL:-Xlinker \"--version-script=${script}\"" -Wl,--exclude-libs,ALL -Wl,-z,noexecstack)
  # Sanitizer runtimes live in the program: their symbols are undefined here on purpose.
  if(NOT "${TENON_SANITIZE} ${CMAKE_CXX_FLAGS} ${CMAKE_MODULE_LINKER_FLAGS}" MATCHES
     "-fsanitize|address|thread|undefined|memory")
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

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
# Options are declared in the manifest and nowhere else: for each [[backend]] with [[backend.option]]
# tables the header <BACKEND_options.h> holds a struct tenon::plugin::BACKEND_options with a field of
# the right type for every option (bool, int64_t, double, std::string, std::vector<std::string>, or
# an enum class OPTION_choice) and read(), which fills it from a request:
#
#   #include <mine_options.h>
#   auto given = tenon::plugin::mine_options::read(request);
#   if (given.top > 3 && given.style == given.style_choice::fancy) ...
#
# It is written when CMake runs, which a change of the manifest makes it do. Where other targets
# want it too (a library of the plugin's parts), tenon_plugin_options(TARGET MANIFEST) gives it to
# them. The tables are read line by line: one `key = value` a line, not inline tables.
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
    tenon_plugin_options(${target} ${arg_MANIFEST})
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

# Writes a header for each backend of the manifest that has options.
function(tenon_plugin_options target manifest)
  get_filename_component(manifest ${manifest} ABSOLUTE)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}_options)
  file(READ ${manifest} text)
  # As a list of lines: without the characters that mean something in lists, arrays on one line.
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "\\" "/" text "${text}")
  string(REPLACE "[" "<" text "${text}")
  string(REPLACE "]" ">" text "${text}")
  string(REGEX REPLACE "([<,])[ \t]*\n[ \t]*" "\\1" text "${text}")
  string(REGEX REPLACE ",?[ \t]*\n[ \t]*>" ">" text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  set(table)
  foreach(line IN LISTS lines ITEMS "<end>")
    if(line MATCHES "^[ \t]*<")
      if(table STREQUAL "option")
        tenon_plugin_option(fields reads)
      endif()
      set(table)
      if(line MATCHES "^[ \t]*<<[ \t]*backend\\.option[ \t]*>>")
        set(table option)
        unset(option_choices)
        unset(option_doc)
      elseif(line MATCHES "^[ \t]*<<[ \t]*backend[ \t]*>>" OR line STREQUAL "<end>")
        if(fields)
          tenon_plugin_options_header(${folder} ${backend_name} "${fields}" "${reads}")
          target_include_directories(${target} PRIVATE ${folder})
        endif()
        set(table backend)
        set(fields)
        set(reads)
      endif()
    elseif(line MATCHES "^[ \t]*([a-z_]+)[ \t]*=[ \t]*(.*)$" AND table)
      set(key ${table}_${CMAKE_MATCH_1})
      set(${key} "${CMAKE_MATCH_2}")
      if("${${key}}" MATCHES "^\"([^\"]*)\"")
        set(${key} "${CMAKE_MATCH_1}")
      elseif("${${key}}" MATCHES "^'([^']*)'")
        set(${key} "${CMAKE_MATCH_1}")
      endif()
    endif()
  endforeach()
endfunction()

# Adds the option that option_name, _type, _doc and _choices describe to the texts of a struct.
function(tenon_plugin_option out_fields out_reads)
  set(type_bool bool)
  set(type_int int64_t)
  set(type_float double)
  set(type_string std::string)
  set(type_list std::vector<std::string>)
  set(type_enum ${option_name}_choice)
  set(type ${type_${option_type}})
  if(NOT type)
    message(FATAL_ERROR "option ${option_name} has the type \"${option_type}\"; expected bool, int, "
      "float, string, enum or list")
  endif()
  set(read "given.get<${type}>(\"${option_name}\")")
  set(enum)
  if(option_type STREQUAL "enum")
    string(REGEX MATCHALL "[\"'][^\"']*[\"']" choices "${option_choices}")
    list(JOIN choices ", " names)
    set(enumerators)
    foreach(choice IN LISTS choices)
      string(REGEX REPLACE "[\"']" "" choice "${choice}")
      tenon_plugin_name(choice "${choice}" "${enumerators}")
      list(APPEND enumerators ${choice})
    endforeach()
    list(JOIN enumerators ", " enumerators)
    set(enum "  enum class ${type} { ${enumerators} };\n")
    set(read "static_cast<${type}>(given.choice(\"${option_name}\", {${names}}))")
  endif()
  tenon_plugin_name(field ${option_name} read)
  set(${out_fields} "${${out_fields}}${enum}  /// ${option_doc}\n  ${type} ${field};\n"
    PARENT_SCOPE)
  set(${out_reads} "${${out_reads}}        .${field} = ${read},\n" PARENT_SCOPE)
endfunction()

# The text as a name of C++: keywords, and the names that are taken, get an underscore.
function(tenon_plugin_name out text taken)
  string(REGEX REPLACE "[^a-zA-Z0-9_]" "_" name "${text}")
  string(REGEX REPLACE "^([0-9]|$)" "_\\1" name "${name}")
  set(keywords alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum explicit
    export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires
    return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq)
  while("${name}" IN_LIST keywords OR "${name}" IN_LIST taken)
    string(APPEND name _)
  endwhile()
  set(${out} "${name}" PARENT_SCOPE)
endfunction()

function(tenon_plugin_options_header folder backend fields reads)
  string(MAKE_C_IDENTIFIER ${backend} backend)
  file(CONFIGURE OUTPUT ${folder}/${backend}_options.h @ONLY CONTENT
"// Written from the manifest, which is the place for changes.
#pragma once

#include <tenon/plugin.hpp>

#include <string>
#include <vector>

namespace tenon::plugin {

struct @backend@_options {
@fields@
  static @backend@_options read(const tn_compile_request& request) {
    options given(request);
    return {
@reads@    };
  }
};

}  // namespace tenon::plugin
")
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

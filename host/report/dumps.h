// Folders for what a compilation leaves behind: graphs, repros, records, phases.
//
// All of them lie below the flag dynamo.debug_dir_root: <root>/run_<process>/<compile id>. Nothing
// is made before somebody writes.
//
// Threads: all functions may be called from any thread.
#pragma once

#include <string>
#include <string_view>

namespace tenon::report {

/// Whether the flags ask for dumps: a repro is to be written, or dynamo.debug_dir_root was set.
bool dumps_wanted();
/// The folder for dumps of one compilation, such as "3/0", made at the first call; empty where it
/// cannot be made, about which one warning is written.
std::string dump_folder(std::string_view compile_id);
/// Writes a file into a folder of dumps; a warning where that fails.
void write_dump(const std::string& folder, std::string_view name, std::string_view text);

/// The path as messages show it: without the prefix dynamo.base_dir.
std::string shown_path(std::string_view path);

}  // namespace tenon::report

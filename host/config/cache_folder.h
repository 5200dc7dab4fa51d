// Where files are kept that can be made again.
#pragma once

#include <string>

namespace tenon::config {

/// TENON_CACHE_DIR, else $XDG_CACHE_HOME/tenon, else ~/.cache/tenon; empty where none of them is
/// set, and in programs that run with more rights than their user. The folder need not exist.
std::string cache_folder();

}  // namespace tenon::config

// The files of flags, as verbs show them.
#pragma once

#include "cli/output.h"

#include <string>

namespace tenon::cli {

/// A list of {"layer", "file", "read", "why"}: those that are read, and those that are not.
Json config_file_facts();
/// "project file configs/dynamo.toml", with why it is not read.
std::string config_file_line(const Json& file);

}  // namespace tenon::cli

// Files of the source tree that are part of the program, so that an installed one has them.
#pragma once

#include "core/embedded_file.h"

#include <span>

namespace tenon::kit {

/// The graphs of tests/plugins/graphs: "softmax_rows.tng".
std::span<const EmbeddedFile> golden_graphs();
/// plugin-api/abi/v1.layout, alone.
std::span<const EmbeddedFile> abi_layouts();
/// The files of a new plugin, by language: "c++/plugin.toml".
std::span<const EmbeddedFile> plugin_templates();

}  // namespace tenon::kit

// A verb's options as a parser of CLI11's, and what was declared, for pages about it.
#pragma once

#include "cli/verb.h"

#include <CLI/CLI.hpp>
#include <memory>

namespace tenon::cli {

/// The parser of a verb, with the options of every verb. `globals` and `action` outlive it.
std::unique_ptr<CLI::App> make_parser(const Verb& verb, Globals& globals, Action& action);

}  // namespace tenon::cli

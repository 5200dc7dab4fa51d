// The verbs of the `tenon` program: one file each, listed in verbs.cpp.
//
//     Action build_VERB(Options& app) {
//       auto path = std::make_shared<std::string>();
//       app.add_option("MODEL", *path, "an archive or a graph").required();
//       return [path](const Globals& globals) { return show(*path, globals); };
//     }
//     extern constinit const Verb verb_show{.name = "show", .summary = "...", .build = build_VERB};
//
// An action returns the exit status 0 or 1 (a check failed) and throws for all else; main.cpp turns
// what is thrown into a message and a status. Results go to stdout through output.h.
#pragma once

#include "cli/options.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::cli {

/// The options of every verb.
struct Globals {
  bool json = false;   ///< one JSON document on stdout
  bool quiet = false;  ///< errors only on stderr
  int verbose = 0;     ///< the number of -v
  std::string color = "auto";
  std::vector<std::string> settings;  ///< --set section.flag=value
  std::string config_file;
  int threads = 0;  ///< 0: as the flag compiler.threads says
  std::vector<std::string> plugins, plugin_path;
};

/// Their group in --help.
inline constexpr std::string_view globals_group = "Options of every verb";

/// Runs a verb whose options were parsed.
using Action = std::function<int(const Globals&)>;

struct Verb {
  std::string_view name;
  std::string_view summary;                 ///< one line, without a full stop
  std::string_view example;                 ///< for --help; lines are shown as they are
  Action (*build)(Options& app) = nullptr;  ///< declares the options
  bool hidden = false;                      ///< left out of the list of verbs
  bool judges_plugins = false;              ///< tells what is wrong with files of --plugin itself
  bool reads_flags = true;                  ///< false: works beside broken files of flags, too
};

/// All verbs in the order of `tenon --help`.
std::span<const Verb* const> verbs();
/// Null for an unknown name.
const Verb* find_verb(std::string_view name);

/// Declares the options of every verb.
void add_globals(Options& app, Globals& globals);
/// "a,b" and repeated values as one list.
std::vector<std::string> split_commas(const std::vector<std::string>& values);

}  // namespace tenon::cli

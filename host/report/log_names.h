// The names that logging.logs (TENON_LOGS) takes: components and artifacts, a row each; and those of
// PyTorch that it refuses, with the nearest and the reason.
//
// Threads: all functions may be called from any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::report {

/// Lines of a part of Tenon, by their importance.
struct LogComponent {
  std::string_view name;
  std::string_view parts;  ///< whose lines it stands for, separated by spaces; `plugin.` for all
  std::string_view doc;
};

/// Something that is written whatever the level, once it is asked for.
struct LogArtifact {
  std::string_view name;
  std::string_view component;  ///< that asks for it at level debug ("+dynamo"); empty: none
  std::string_view doc;
};

/// A name of PyTorch's without lines here.
struct RefusedLog {
  std::string_view name, nearest, why;
};

std::span<const LogComponent> log_components();
std::span<const LogArtifact> log_artifacts();
std::span<const RefusedLog> refused_logs();

const LogComponent* find_log_component(std::string_view name);
const LogArtifact* find_log_artifact(std::string_view name);

/// Why logging.logs does not take a name, with the nearest ones.
std::string unknown_log(std::string_view name);
/// The rows, a line each: for TENON_LOGS=help.
std::string log_help();

}  // namespace tenon::report

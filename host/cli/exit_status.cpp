// Which status an error ends the program with.
#include "cli/exit_status.h"

#include "config/config.h"

namespace tenon::cli {

std::span<const ExitMeaning> exit_meanings() {
  static constexpr ExitMeaning meanings[] = {
      {ExitStatus::done, "done, and every check that was asked for holds"},
      {ExitStatus::check_failed, "a check failed"},
      {ExitStatus::usage, "wrong usage, or an unknown name"},
      {ExitStatus::bad_file, "a bad input file"},
      {ExitStatus::plugin, "a plugin is missing, broken or refused, or the backend failed"},
      {ExitStatus::unsupported, "an unsupported op or model"},
      {ExitStatus::internal, "a bug; a folder with what it takes to see it again was written"},
      {ExitStatus::interrupted, "interrupted"},
  };
  return meanings;
}

ExitStatus exit_status_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::bad_file:
      return ExitStatus::bad_file;
    case ErrorCode::config:
      return config::is_file_error(error) ? ExitStatus::bad_file : ExitStatus::usage;
    case ErrorCode::invalid_argument:
    case ErrorCode::invalid_backend:
    case ErrorCode::constraint_violation:
      return ExitStatus::usage;
    case ErrorCode::unsupported:
    case ErrorCode::graph_break:
    case ErrorCode::data_dependent:
      return ExitStatus::unsupported;
    case ErrorCode::recompile:
    case ErrorCode::recompile_limit:
    case ErrorCode::capture_divergence:
      return ExitStatus::check_failed;
    case ErrorCode::plugin:
    case ErrorCode::backend_compiler_failed:
    case ErrorCode::backend_call_failed:
      return ExitStatus::plugin;
    case ErrorCode::internal:
      return ExitStatus::internal;
  }
  return ExitStatus::internal;
}

}  // namespace tenon::cli

// Error classes, message formatting and name suggestions.
#include "core/error.h"

#include "core/edit_distance.h"
#include "core/symbols_in_errors.h"
#include "core/utf8.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

namespace tenon {

std::string (*explain_symbols_slot)(FunctionRef<std::string()>) = nullptr;
void (*user_error_slot)(const UserError&) = nullptr;

std::string_view name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::graph_break:
      return "GraphBreakError";
    case ErrorCode::recompile:
      return "RecompileError";
    case ErrorCode::recompile_limit:
      return "FailOnRecompileLimitHit";
    case ErrorCode::invalid_backend:
      return "InvalidBackend";
    case ErrorCode::constraint_violation:
      return "ConstraintViolationError";
    case ErrorCode::data_dependent:
      return "DataDependentError";
    case ErrorCode::capture_divergence:
      return "CaptureDivergence";
    case ErrorCode::config:
      return "ConfigError";
    case ErrorCode::plugin:
      return "PluginError";
    case ErrorCode::backend_compiler_failed:
      return "BackendCompilerFailed";
    case ErrorCode::backend_call_failed:
      return "BackendCallFailed";
    default:
      return "";
  }
}

namespace {

std::string with_code_name(ErrorCode code, const std::string& text) {
  std::string_view name = name_of(code);
  return name.empty() ? shown(text) : std::string(name) + ": " + shown(text);
}

}  // namespace

Error::Error(ErrorCode code, const std::string& message)
    : std::runtime_error(with_code_name(code, message)), code_(code) {}

namespace detail {

void MessageArg::append_integer(std::string& out, int64_t value) { out += std::to_string(value); }
void MessageArg::append_unsigned(std::string& out, uint64_t value) { out += std::to_string(value); }
void MessageArg::append_text(std::string& out, std::string_view value) { out += value; }

void MessageArg::append_double(std::string& out, double value) {
  char buffer[32];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

std::string format_message(std::string_view pattern, std::initializer_list<MessageArg> args) {
  std::string out;
  auto next = args.begin();
  for (size_t i = 0; i < pattern.size(); ++i) {
    char c = pattern[i];
    char following = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (c == '{' && following == '}' && next != args.end()) {
      (next++)->append_to(out);
      ++i;
    } else {
      if ((c == '{' || c == '}') && following == c) ++i;
      out += c;
    }
  }
  return out;
}

void throw_user_error(ErrorCode code, std::string_view pattern,
                      std::initializer_list<MessageArg> args) {
  auto write = [&] { return format_message(pattern, args); };
  UserError error(code, explain_symbols_slot ? explain_symbols_slot(write) : write());
  if (user_error_slot) user_error_slot(error);
  throw error;
}

}  // namespace detail

void fail_internal(std::string_view what, std::source_location where) {
  std::string_view file = where.file_name();
  if (size_t room = file.find("host/"); room != std::string_view::npos) file.remove_prefix(room);
  throw InternalError(
      message("internal error: {} ({}:{}); please report it", what, file, where.line()));
}

// Levenshtein distance with one row of state.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string nearest_names(std::string_view name, const std::vector<std::string>& known,
                          size_t count) {
  // No name that anybody meant is longer, and the distance costs the product of the lengths.
  name = name.substr(0, 128);
  std::vector<std::pair<size_t, std::string_view>> ranked;
  for (const std::string& candidate : known)
    ranked.push_back({edit_distance(name, candidate), candidate});
  count = std::min(count, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<ptrdiff_t>(count), ranked.end());
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    if (i) out += ", ";
    out += ranked[i].second;
  }
  return out;
}

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// Errors of Tenon: three classes, each with a code that names the situation.
//
// A message says what failed, what was expected, what was found and what to do next. Catch
// `tenon::Error` for all of them, or one of the three:
//   UserError      your call, file, flag or environment
//   BackendError   a plugin: names the plugin and keeps the status code that it returned
//   InternalError  a bug in Tenon
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#if defined(TENON_BUILDING)
#define TENON_API __attribute__((visibility("default")))
#else
#define TENON_API
#endif

namespace tenon {

/// What went wrong, for programs. Messages begin with the name of every code but the first four.
enum class ErrorCode : uint16_t {
  invalid_argument,      ///< a wrong argument, size, dtype or name
  bad_file,              ///< malformed file, foreign version or old layout (exit status 3)
  unsupported,           ///< well-formed, but not supported (exit status 5)
  internal,              ///< a bug
  graph_break,           ///< GraphBreakError
  recompile,             ///< RecompileError
  recompile_limit,       ///< FailOnRecompileLimitHit
  invalid_backend,       ///< InvalidBackend
  constraint_violation,  ///< ConstraintViolationError
  data_dependent,  ///< DataDependentError: a symbolic value that only run time knows was asked for
  capture_divergence,       ///< CaptureDivergence
  config,                   ///< ConfigError
  plugin,                   ///< a plugin cannot be loaded
  backend_compiler_failed,  ///< BackendCompilerFailed
  backend_call_failed,      ///< a compiled artifact returned an error
};

/// The name that begins a message, such as "GraphBreakError"; empty for the first four codes.
TENON_API std::string_view name_of(ErrorCode code);

class TENON_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

class TENON_API UserError : public Error {
 public:
  explicit UserError(const std::string& message) : Error(ErrorCode::invalid_argument, message) {}
  UserError(ErrorCode code, const std::string& message) : Error(code, message) {}
};

class TENON_API BackendError : public Error {
 public:
  BackendError(ErrorCode code, int32_t status, const std::string& message)
      : Error(code, message), status_(status) {}
  /// The TN_ code of the status that the plugin returned.
  int32_t status() const { return status_; }

 private:
  int32_t status_;
};

class TENON_API InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ErrorCode::internal, message) {}
};

namespace detail {

/// One argument of a message, without its type; text is produced only when a message is needed.
class MessageArg {
 public:
  template <class T>
  MessageArg(const T& value) : value_(&value), print_(&print<T>) {}  // NOLINT: implicit by design
  void append_to(std::string& out) const { print_(value_, out); }

 private:
  template <class T>
  static void print(const void* p, std::string& out) {
    const T& value = *static_cast<const T*>(p);
    if constexpr (std::is_same_v<T, bool>)
      out += value ? "true" : "false";
    else if constexpr (std::is_same_v<T, char>)
      out += value;
    else if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
      append_integer(out, value);
    else if constexpr (std::is_integral_v<T>)
      append_unsigned(out, value);
    else if constexpr (std::is_floating_point_v<T>)
      append_double(out, static_cast<double>(value));
    else if constexpr (std::is_convertible_v<const T&, std::string_view>)
      append_text(out, value);
    else if constexpr (requires { symbolic_text(value); })
      out += symbolic_text(value);  // a message looks at no symbol
    else
      out += to_text(value);  // found by the type's namespace
  }
  TENON_API static void append_integer(std::string& out, int64_t value);
  TENON_API static void append_unsigned(std::string& out, uint64_t value);
  TENON_API static void append_double(std::string& out, double value);
  TENON_API static void append_text(std::string& out, std::string_view value);

  const void* value_;
  void (*print_)(const void*, std::string&);
};

TENON_API std::string format_message(std::string_view pattern,
                                     std::initializer_list<MessageArg> args);
[[noreturn]] TENON_API void throw_user_error(ErrorCode code, std::string_view pattern,
                                             std::initializer_list<MessageArg> args);

/// A pattern of a message. The length of a literal is known while compiling; code that is built for
/// size would count its characters at each call, also where nothing fails.
class MessagePattern {
 public:
  template <size_t n>
  consteval MessagePattern(const char (&text)[n]) : text_(text, n - 1) {}  // NOLINT: implicit
  template <class T>
  requires std::is_convertible_v<const T&, std::string_view> MessagePattern(const T& text)
      : text_(text) {}                                 // NOLINT: implicit
  operator std::string_view() const { return text_; }  // NOLINT: implicit

 private:
  std::string_view text_;
};

}  // namespace detail

/// `pattern` with each `{}` replaced by the next argument; `{{` and `}}` stand for braces.
/// Arguments are numbers, bools, strings, or of a type with a function `std::string to_text(const
/// T&)`. Sizes that are symbolic stay so in the text, see symbolic_text.
template <class... Args>
std::string message(detail::MessagePattern pattern, const Args&... args) {
  return detail::format_message(pattern, {detail::MessageArg(args)...});
}

/// Throws UserError with the formatted message.
template <class... Args>
[[noreturn]] void fail(detail::MessagePattern pattern, const Args&... args) {
  detail::throw_user_error(ErrorCode::invalid_argument, pattern, {detail::MessageArg(args)...});
}
template <class... Args>
[[noreturn]] void fail(ErrorCode code, detail::MessagePattern pattern, const Args&... args) {
  detail::throw_user_error(code, pattern, {detail::MessageArg(args)...});
}

/// Throws UserError unless `condition` holds. The message costs nothing when it holds.
template <class... Args>
inline void require(bool condition, detail::MessagePattern pattern, const Args&... args) {
  if (!condition) [[unlikely]]
    fail(pattern, args...);
}
template <class... Args>
inline void require(bool condition, ErrorCode code, detail::MessagePattern pattern,
                    const Args&... args) {
  if (!condition) [[unlikely]]
    fail(code, pattern, args...);
}

}  // namespace tenon

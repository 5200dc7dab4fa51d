// What fuzz targets are written with. A target is a file NAME.cpp in tests/fuzz/:
//
//     TENON_FUZZ_TARGET(npy) {
//       accepts(file_errors, [&] { read_npy(bytes_of(input), "a.npy"); });
//     }
//
// All targets are one program, since each needs the whole host. Under libFuzzer its name, a link
// in build/fuzz/fuzz/, tells which one runs; in other builds it runs the seeds of one as a test.
#pragma once

#include "core/error.h"
#include "formats/byte_reader.h"

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::fuzz {

using Run = void (*)(std::string_view input);

/// The target of that name; ends the program when there is none.
Run find_target(std::string_view name);

struct Registered {
  Registered(std::string_view name, Run run);
};

/// Ends the program with `what` unless `condition`: a finding.
void check(bool condition, std::string_view what);

/// Told what happened to an input ("accepted", "inductor ran"), where somebody counts: mutants/.
extern void (*count_slot)(std::string_view what);
inline void count(std::string_view what) {
  if (count_slot) count_slot(what);
}

/// What a reader of files may answer.
inline constexpr std::initializer_list<ErrorCode> file_errors = {ErrorCode::bad_file,
                                                                 ErrorCode::unsupported};

/// Whether `body` ends without an error. One with one of `codes` and a message that can be shown is
/// a refusal; every other exception is a finding.
bool accepts(std::initializer_list<ErrorCode> codes, const std::function<void()>& body);

/// Whether `text` can be shown: not empty, UTF-8, and nothing that steers a terminal.
void check_shown(std::string_view text);

/// The input as a file in memory; valid as long as the input.
inline formats::Bytes bytes_of(std::string_view input) {
  return {formats::as_byte_span(input), nullptr};
}

/// The input as a file with a path, for readers that take nothing else. Lives as long as this.
class InputFile {
 public:
  explicit InputFile(std::string_view content);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  std::string path() const;

 private:
  int fd_;
};

/// A file of named parts as text, which mutations get further with than with its bytes:
///
///     === models/model.json
///     {...}
///     === archive_version
///     0
///
/// Empty where the text is not of that form.
using Records = std::vector<std::pair<std::string, std::string_view>>;
Records records_of(std::string_view text);

/// Takes lines off the front of an input.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }
  std::string_view next();
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace tenon::fuzz

#define TENON_FUZZ_TARGET(name)                                               \
  static void fuzz_##name(std::string_view input);                            \
  static const tenon::fuzz::Registered registered_##name(#name, fuzz_##name); \
  static void fuzz_##name(std::string_view input)

// The list of targets, and what counts as a finding.
#include "harness/fuzz.h"

#include "core/utf8.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace tenon::fuzz {

namespace {

struct Target {
  std::string_view name;
  Run run;
};

std::vector<Target>& targets() {
  static auto& list = *new std::vector<Target>();
  return list;
}

[[noreturn]] void stop(std::string_view what) {
  std::fprintf(stderr, "finding: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace

void (*count_slot)(std::string_view what) = nullptr;

Registered::Registered(std::string_view name, Run run) { targets().push_back({name, run}); }

Run find_target(std::string_view name) {
  for (const Target& target : targets())
    if (target.name == name) return target.run;
  stop(message("there is no fuzz target {}; see tests/fuzz/*.cpp", name));
}

void check(bool condition, std::string_view what) {
  if (!condition) stop(what);
}

void check_shown(std::string_view text) {
  bool steers = std::any_of(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
  });
  check(!text.empty(), "a message is empty");
  check(!steers && is_utf8(text), message("a message has stray bytes: {}", text));
}

bool accepts(std::initializer_list<ErrorCode> codes, const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const UserError& error) {
    bool expected = std::find(codes.begin(), codes.end(), error.code()) != codes.end();
    check(expected, message("an error of the wrong kind ({}): {}", static_cast<int>(error.code()),
                            error.what()));
    check_shown(error.what());
    return false;
  } catch (const std::exception& error) {
    stop(message("not a UserError: {}", error.what()));
  }
}

InputFile::InputFile(std::string_view content) : fd_(::memfd_create("fuzz input", MFD_CLOEXEC)) {
  bool written = fd_ >= 0 && ::write(fd_, content.data(), content.size()) ==
                                 static_cast<ssize_t>(content.size());
  check(written, "the input cannot be written to a file in memory");
}

InputFile::~InputFile() { ::close(fd_); }

std::string InputFile::path() const { return message("/proc/self/fd/{}", fd_); }

Records records_of(std::string_view text) {
  constexpr std::string_view mark = "=== ";
  Records out;
  while (text.starts_with(mark)) {
    Lines lines(text.substr(mark.size()));
    std::string name(lines.next());
    size_t end = lines.rest().find("\n=== ");
    out.emplace_back(std::move(name), lines.rest().substr(0, end));
    text = end == lines.rest().npos ? std::string_view() : lines.rest().substr(end + 1);
  }
  return out;
}

std::string_view Lines::next() {
  size_t end = std::min(rest_.find('\n'), rest_.size());
  std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(std::min(end + 1, rest_.size()));
  return line;
}

}  // namespace tenon::fuzz

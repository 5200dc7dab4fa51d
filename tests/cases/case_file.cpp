// Text cases: reading the files, registering each as a test, and the program's entry.
#include "case_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace tenon::cases {

namespace {

struct Room {
  std::string folder;
  void (*run)(const CaseFile&);
};

std::vector<Room>& rooms() {
  static std::vector<Room> list;
  return list;
}

std::string trimmed(std::string_view text) {
  size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

// "third_size_is_free" -> "ThirdSizeIsFree"
std::string test_name(const std::filesystem::path& path) {
  std::string name;
  bool upper = true;
  for (char c : path.stem().string()) {
    if (c != '_') name += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = c == '_';
  }
  return name;
}

class CaseTest : public testing::Test {
 public:
  CaseTest(std::string path, void (*run)(const CaseFile&)) : path_(std::move(path)), run_(run) {}
  void TestBody() override { run_(read_case_file(path_)); }

 private:
  std::string path_;
  void (*run_)(const CaseFile&);
};

void register_room(const std::filesystem::path& root, const Room& room) {
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(root / room.folder))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / room.folder))
      if (entry.path().extension() == ".test") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files)
    testing::RegisterTest(("cases_" + room.folder).c_str(), test_name(file).c_str(), nullptr,
                          nullptr, file.c_str(), 1,
                          [path = file.string(), run = room.run]() -> testing::Test* {
                            return new CaseTest(path, run);
                          });
}

std::string line_of(std::string_view text, size_t number) {
  size_t at = 0;
  for (size_t i = 0; i < number && at != std::string_view::npos; ++i) {
    at = text.find('\n', at);
    if (at != std::string_view::npos) ++at;
  }
  if (at == std::string_view::npos) return "(nothing)";
  return std::string(text.substr(at, text.find('\n', at) - at));
}

}  // namespace

CaseRoom::CaseRoom(std::string_view folder, void (*run)(const CaseFile&)) {
  rooms().push_back({std::string(folder), run});
}

CaseFile read_case_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  CaseFile file{path, {}};
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::string text = trimmed(line);
    bool is_blank = text.empty() || text[0] == '#';
    bool is_block = !line.empty() && (line[0] == ' ' || line[0] == '\t');
    if (is_block && !file.directives.empty()) file.directives.back().block += line + "\n";
    if (is_block || is_blank) continue;
    size_t space = text.find_first_of(" \t");
    file.directives.push_back({number, text.substr(0, space),
                               space == std::string::npos ? "" : trimmed(text.substr(space)), ""});
  }
  return file;
}

void fail_case(const CaseFile& file, const Directive& directive, std::string_view what) {
  ADD_FAILURE_AT(file.path.c_str(), directive.line) << directive.word << ": " << what;
}

void expect_text(const CaseFile& file, const Directive& directive, std::string_view expected,
                 std::string_view found) {
  if (expected == found) return;
  size_t line = 0;
  while (line_of(expected, line) == line_of(found, line)) ++line;
  fail_case(
      file, directive,
      "line " + std::to_string(line + 1) + " differs\n  expected: " + line_of(expected, line) +
          "\n  found:    " + line_of(found, line) + "\nwhole text found:\n" + std::string(found));
}

void expect_part(const CaseFile& file, const Directive& directive, std::string_view expected,
                 std::string_view found) {
  if (found.find(expected) != std::string_view::npos) return;
  fail_case(
      file, directive,
      "expected a text with\n  " + std::string(expected) + "\nfound\n  " + std::string(found));
}

}  // namespace tenon::cases

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  // The folder of the cases: the first argument, else the one that the build names.
  std::filesystem::path root = argc > 1 ? argv[1] : TENON_CASES_DIR;
  for (const auto& room : tenon::cases::rooms()) tenon::cases::register_room(root, room);
  return RUN_ALL_TESTS();
}

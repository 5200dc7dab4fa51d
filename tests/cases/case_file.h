// Text cases: a `.test` file is a list of directives, run by the room that its folder is named
// after.
//
//     # One sentence: what holds.            the first comment; later ones are free
//     graph                                  a word, text after it, and a block of indented lines
//       input %x: f32[2]
//       output %x
//     pass    dead_code
//
// A room registers a function that gets the directives one by one and reports what fails with
// `fail_case`. The file's name is the test's name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::cases {

struct Directive {
  int line = 0;
  std::string word;
  std::string text;   ///< the rest of the line, without spaces around it
  std::string block;  ///< the indented lines that follow, each with its newline
};

struct CaseFile {
  std::string path;
  std::vector<Directive> directives;
};

CaseFile read_case_file(const std::string& path);

/// Fails the running test with file and line.
void fail_case(const CaseFile& file, const Directive& directive, std::string_view what);
/// Fails unless `found` is `expected`; shows the first line that differs.
void expect_text(const CaseFile& file, const Directive& directive, std::string_view expected,
                 std::string_view found);
/// Fails unless `found` has `expected` in it.
void expect_part(const CaseFile& file, const Directive& directive, std::string_view expected,
                 std::string_view found);

/// A folder of cases and who runs them. Objects of static storage register themselves.
struct CaseRoom {
  CaseRoom(std::string_view folder, void (*run)(const CaseFile&));
};

}  // namespace tenon::cases

// docs/from-pytorch.md: no name of PyTorch's is missing, and its log tables are those of log_names.
#include "core/error.h"
#include "folders.h"
#include "report/log_names.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tenon::report {
namespace {

const std::string page_path = source_path("docs/from-pytorch.md");
constexpr std::string_view begin_mark = "<!-- logs: begin -->\n", end_mark = "<!-- logs: end -->";

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string tables() {
  std::string out = "\n| component | lines |\n|---|---|\n";
  for (const LogComponent& row : log_components())
    out += message("| `{}` | {} |\n", row.name, row.doc);
  out += "\n| artifact | written by `+` of | what it shows |\n|---|---|---|\n";
  for (const LogArtifact& row : log_artifacts())
    out += message("| `{}` | {} | {} |\n", row.name,
                   row.component.empty() ? "" : message("`{}`", row.component), row.doc);
  out += "\n| only PyTorch has | nearest | reason |\n|---|---|---|\n";
  for (const RefusedLog& row : refused_logs())
    out += message("| `{}` | `{}` | {} |\n", row.name, row.nearest, row.why);
  return out + "\n";
}

TEST(FromPytorchPage, ItsLogTablesAreThoseOfTheNames) {
  std::string page = text_of(page_path);
  size_t begin = page.find(begin_mark), end = page.find(end_mark);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  begin += begin_mark.size();
  std::string expected = tables();
  if (page.substr(begin, end - begin) == expected) return;
  if (std::getenv("TENON_WRITE_DOCS")) {
    std::ofstream(page_path) << page.replace(begin, end - begin, expected);
    return;
  }
  FAIL() << "docs/from-pytorch.md is older than the log names; write it anew with\n"
            "  TENON_WRITE_DOCS=1 build/release/bin/unit_tests --gtest_filter=FromPytorchPage.*";
}

// The part of the page under the heading that names the section.
std::string section_of(const std::string& page, const std::string& section) {
  size_t begin = page.find("\n## " + section + "\n");
  if (begin == std::string::npos) return "";
  return page.substr(begin, page.find("\n## ", begin + 1) - begin);
}

TEST(FromPytorchPage, ItHasEveryNameOfPytorch) {
  std::string page = text_of(page_path);
  std::ifstream names(source_path("tests/data/config/names_of_pytorch.txt"));
  size_t n = 0;
  for (std::string line; std::getline(names, line);) {
    if (line.empty() || line[0] == '#') continue;
    size_t bar = line.find(" | ");
    ASSERT_NE(bar, std::string::npos) << line;
    std::string section = line.substr(0, bar), name = line.substr(bar + 3);
    EXPECT_NE(section_of(page, section).find("\n| `" + name + "` | "), std::string::npos) << line;
    ++n;
  }
  EXPECT_GT(n, 100u);
}

TEST(FromPytorchPage, RefusedNamesAreRefusedAndTheirNearestAreNot) {
  for (const RefusedLog& row : refused_logs()) {
    EXPECT_FALSE(find_log_component(row.name) || find_log_artifact(row.name)) << row.name;
    EXPECT_TRUE(row.nearest == "all" || find_log_component(row.nearest) ||
                find_log_artifact(row.nearest))
        << row.name << ": " << row.nearest;
  }
  for (const LogArtifact& row : log_artifacts())
    EXPECT_TRUE(row.component.empty() || find_log_component(row.component)) << row.name;
}

}  // namespace
}  // namespace tenon::report

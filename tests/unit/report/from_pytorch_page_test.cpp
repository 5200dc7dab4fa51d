// docs/from-pytorch.md: no name of PyTorch's is missing, and its log tables are those of log_names.
#include "core/error.h"
#include "report/log_names.h"
#include "written_part.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tenon::report {
namespace {

const std::string page_path = source_path("docs/from-pytorch.md");

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
  expect_written_part("from-pytorch.md", "logs", tables(), "FromPytorchPage.*");
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

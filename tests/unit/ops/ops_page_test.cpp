// docs/ops.md: its table is that of the op table, its rows are rows of the sources.
#include "ops/op_table.h"
#include "written_part.h"

#include <gtest/gtest.h>

#include <tenon/plugin.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace tenon {
namespace {

const std::string page_path = source_path("docs/ops.md");

// What an op is made of, in the order of the page.
std::string kind_of(const OpEntry& op) {
  const OpDef& row = *op.def;
  if (row.formula) return "1 a formula";
  if (row.view) return "2 a view of an argument";
  if (op.mutated_args) return "3 a write into an argument";
  if (op.tags & TN_TAG_RANDOM) return "4 random numbers";
  if (row.eager && row.decomp) return "5 a kernel and a decomposition";
  if (row.eager) return "6 a kernel";
  if (row.provider) return "7 a kernel in a plugin";
  return "8 a decomposition";
}

std::string wrapped(const std::set<std::string>& names) {
  std::string out, line;
  for (const std::string& name : names) {
    if (line.size() + name.size() > 130) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + name;
  }
  return out + line + "\n";
}

std::string table() {
  std::map<std::string, std::set<std::string>> kinds;
  size_t core = 0, count = 0;
  for (const std::string& name : all_op_names()) {
    const OpEntry& op = *find_op(name);
    if (!op.def || op.functional || !name.starts_with("aten.")) continue;
    ++count;
    core += op.def->core;
    std::string shown = name.substr(5);
    if (shown.ends_with(".default")) shown.resize(shown.size() - 8);
    kinds[kind_of(op)].insert(shown);
  }
  std::string out = message("{} rows, {} of them core.\n", count, core);
  for (const auto& [kind, names] : kinds)
    out +=
        message("\n**{}** ({})\n\n```text\n{}```\n", kind.substr(2), names.size(), wrapped(names));
  return out;
}

TEST(OpsPage, ItsTableIsTheOpTable) { expect_written_part("ops.md", "ops", table(), "OpsPage.*"); }

// A row shown on the page stands in some source as it is.
TEST(OpsPage, ItsRowsAreThoseOfTheSources) {
  std::string page = text_of(page_path);
  std::string sources = text_of(source_path("host/ops/pointwise/activation.cpp")) +
                        text_of(source_path("host/ops/reduce/arg.cpp"));
  size_t n_blocks = 0;
  for (size_t at = 0; (at = page.find("```c++\n", at)) != std::string::npos; ++n_blocks) {
    at += 7;
    std::string block = page.substr(at, page.find("```", at) - at);
    EXPECT_NE(sources.find(block), std::string::npos) << block;
  }
  EXPECT_EQ(n_blocks, 2u);
}

}  // namespace
}  // namespace tenon

// Ops are named in their rows: what the host wants to know of an op is a fact in its row, and what
// it calls has an OpId.
#include "core/error.h"
#include "folders.h"
#include "ops/op_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// "aten.add.Tensor" and "aten.add" of each op.
const std::set<std::string>& known_names() {
  static const auto* known = [] {
    auto* names = new std::set<std::string>;
    for (const std::string& name : all_op_names()) {
      names->insert(name);
      names->insert(name.substr(0, name.find('.', name.find('.') + 1)));
    }
    return names;
  }();
  return *known;
}

// The string literals of a source, without those in comments.
Names literals(std::string_view text) {
  Names out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text[i] == '\'') {
      while (++i < text.size() && text[i] != '\'' && text[i] != '\n') i += text[i] == '\\';
    } else if (text[i] == '"') {
      out.emplace_back();
      while (++i < text.size() && text[i] != '"') {
        i += text[i] == '\\';
        if (i < text.size()) out.back() += text[i];
      }
    }
  }
  return out;
}

// A literal that is a list of names and nothing else, as "aten.mm", "aten::mm" or "aten.mm, aten.".
bool lists_names(const std::string& literal) {
  std::istringstream words(literal);
  bool any = false;
  for (std::string word; words >> word; any = true) {
    while (word.ends_with(',') || word.ends_with('.')) word.pop_back();
    if (size_t colons = word.find("::"); colons != word.npos) word.replace(colons, 2, ".");
    if (word.find('.') == word.npos || !known_names().contains(word)) return false;
  }
  return any;
}

Names names_in(std::string_view text) {
  Names out;
  for (const std::string& literal : literals(text))
    if (lists_names(literal)) out.push_back(literal);
  // A name without its namespace, where a schema is asked.
  for (size_t at = 0; (at = text.find("schema.name", at)) != text.npos; ++at) {
    std::string_view rest = text.substr(at + std::string_view("schema.name").size());
    if (rest.starts_with(" == \"") || rest.starts_with(" != \""))
      out.emplace_back(rest.substr(5, rest.find('"', 5) - 5));
  }
  return out;
}

std::string text_of(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Rows, and tables by op of code generators and of libraries of kernels, which are a row for an op.
bool is_table_of_ops(const std::string& path) {
  constexpr std::string_view tables[] = {
      "host/ops/",        "host/graph/control_flow.cpp",   "codegen/loopir/lower/",
      "plugins/kernels_", "codegen/blocks/chosen_ops.cpp", "plugins/inductor/chosen_ops.cpp"};
  return std::ranges::any_of(tables, [&](std::string_view t) { return path.starts_with(t); });
}

// Lists that must be those of PyTorch, op by op.
constexpr std::string_view mirrors[] = {"host/aot/decompose.cpp", "host/partition/op_classes.cpp",
                                        "host/partition/runtime_estimate.cpp",
                                        "codegen/recordings/skips.cpp"};

TEST(OpNamesInStrings, StandInRowsOnly) {
  fs::path root = source_path(".");
  for (const char* folder : {"host", "codegen", "plugins"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      std::string path = fs::relative(entry.path(), root).string();
      bool is_source = path.ends_with(".cpp") || path.ends_with(".h") || path.ends_with(".hpp");
      bool is_mirror = std::ranges::find(mirrors, path) != std::end(mirrors);
      if (!is_source || is_mirror || is_table_of_ops(path)) continue;
      EXPECT_EQ(names_in(text_of(entry.path())), Names())
          << path << ": what is asked of the op belongs into its row (host/ops/op.h); "
          << "a call of it takes OpId (ops/op_ids.h)";
    }
}

TEST(OpNamesInStrings, ListsOfPyTorchSaySo) {
  for (std::string_view path : mirrors)
    EXPECT_NE(text_of(source_path(std::string(path))).find("// Mirrors "), std::string::npos)
        << path;
}

TEST(OpNamesInStrings, AreFoundInEachForm) {
  EXPECT_EQ(names_in(R"(call("aten.mm.default");)"), Names{"aten.mm.default"});
  EXPECT_EQ(names_in(R"(is = packet == "aten.mm" || name.starts_with("aten.lstm.");)"),
            (Names{"aten.mm", "aten.lstm."}));
  EXPECT_EQ(names_in(R"(f("aten::relu aten.add.Tensor");)"), Names{"aten::relu aten.add.Tensor"});
  EXPECT_EQ(names_in(R"(if (op.schema.name == "expand") return;)"), Names{"expand"});
  EXPECT_EQ(names_in("f('\"');  // as \"aten.mm\"\ng(\"aten.mm is one of them\", \"tenon.cuda\");"),
            Names());
}

}  // namespace
}  // namespace tenon

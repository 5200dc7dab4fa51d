// Tables of graphs, made from their documents.
#include "graph/text/tables.h"

#include "core/joined.h"
#include "core/sym/shape_env.h"
#include "graph/text/print.h"

#include <algorithm>
#include <array>

namespace tenon {

namespace {

using Row = std::array<std::string, 3>;

std::string aligned(const std::vector<Row>& rows) {
  std::array<size_t, 2> widths{};
  for (const Row& row : rows)
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (size_t c = 0; c < widths.size(); ++c)
      line += row[c] + std::string(widths[c] - row[c].size() + 2, ' ');
    line += row[2];
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string results_of(const StatementDoc& statement) {
  std::vector<std::string> texts;
  for (const ValueDoc& value : statement.results) texts.push_back(value_text(value));
  return joined(texts);
}

std::string arguments_of(const StatementDoc& statement) {
  std::vector<std::string> texts;
  for (const auto& [name, literal] : statement.args)
    texts.push_back((name.empty() ? "" : name + "=") + literal_text(literal));
  return joined(texts);
}

std::string kind_text(const StatementDoc& statement) {
  if (statement.kind == StatementDoc::Kind::input) return "input";
  return statement.kind == StatementDoc::Kind::constant ? "constant" : statement.op;
}

std::string list_text(const std::vector<Literal>& items) {
  return literal_text({.kind = Literal::Kind::list, .items = items});
}

// The sizes for the values that the symbols have in the example; "" where one has none.
std::string example_of(const Graph& graph, const GraphValue& value) {
  std::vector<std::string> sizes;
  for (SymInt size : value.meta.sizes) {
    std::optional<int64_t> hint = graph.shape_env      ? graph.shape_env->int_hint(size)
                                  : size.is_symbolic() ? std::nullopt
                                                       : std::optional(size.word());
    if (!hint) return "";
    sizes.push_back(std::to_string(*hint));
  }
  return "[" + joined(sizes) + "]";
}

}  // namespace

std::string operation_table(const Graph& graph) {
  GraphDoc doc = describe_graph(graph, {.locations = false});
  std::vector<Row> rows = {{"OPERATION", "RESULT", "ARGUMENTS"}};
  for (const StatementDoc& s : doc.body)
    rows.push_back({kind_text(s), results_of(s), arguments_of(s)});
  std::string outputs = list_text(doc.outputs);
  rows.push_back({"output", "", outputs.substr(1, outputs.size() - 2)});
  return aligned(rows);
}

std::string size_table(const Graph& graph) {
  GraphDoc doc = describe_graph(graph, {.locations = false});
  std::vector<Row> rows;
  auto add = [&](const ValueDoc& doc_of_value, const GraphValue& value) {
    if (value.kind != ValueKind::tensor || !doc_of_value.defined) return;
    std::string sizes = list_text(doc_of_value.sizes), example = example_of(graph, value);
    rows.push_back({"%" + doc_of_value.name, sizes, example == sizes ? "" : example});
  };
  std::vector<ValueId> constants = constants_as_written(graph);
  size_t node = 0, input = 0, constant = 0;
  for (const StatementDoc& s : doc.body) {
    if (s.kind == StatementDoc::Kind::input)
      add(s.results[0], graph.value(graph.inputs()[input++]));
    else if (s.kind == StatementDoc::Kind::constant)
      add(s.results[0], graph.value(constants[constant++]));
    else {
      for (size_t r = 0; r < s.results.size(); ++r)
        add(s.results[r], graph.value(graph.nodes()[node].first_result + static_cast<ValueId>(r)));
      ++node;
    }
  }
  return aligned(rows);
}

}  // namespace tenon

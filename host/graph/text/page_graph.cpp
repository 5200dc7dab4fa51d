// Graphs as boxes with what is told of each: made from the document, as the text is.
#include "graph/text/page_graph.h"

#include "graph/text/print.h"
#include "ops/op_table.h"

#include <algorithm>
#include <unordered_map>

namespace tenon {

namespace {

using report::PageGraph;
using report::PageNode;

PageNode::Kind kind_of(const StatementDoc& statement) {
  using Kind = PageNode::Kind;
  if (statement.kind == StatementDoc::Kind::input) return Kind::input;
  if (statement.kind == StatementDoc::Kind::constant) return Kind::constant;
  const OpEntry* op = find_op(statement.op);
  if (!op) return Kind::other;
  if (op->tags & (TN_TAG_MATMUL | TN_TAG_CONV)) return Kind::product;
  if (op->tags & TN_TAG_REDUCTION) return Kind::reduction;
  if (op->tags & TN_TAG_VIEW) return Kind::view;
  return op->tags & TN_TAG_POINTWISE ? Kind::pointwise : Kind::other;
}

// "aten.add.Tensor" is "add" in a box.
std::string label_of(const StatementDoc& statement) {
  if (statement.kind != StatementDoc::Kind::node)
    return statement.results.empty() ? "" : statement.results[0].name;
  size_t first = statement.op.find('.');
  if (first == std::string::npos) return statement.op;
  return statement.op.substr(first + 1, statement.op.find('.', first + 1) - first - 1);
}

class Boxes {
 public:
  explicit Boxes(const GraphDoc& doc) {
    for (const StatementDoc& statement : doc.body) add(statement);
  }

  void mark_runners(const GraphDoc& doc, const std::vector<std::string>& run_by) {
    size_t n = 0;  // statements of nodes have the order of the nodes
    for (size_t i = 0; i < doc.body.size() && n < run_by.size(); ++i)
      if (doc.body[i].kind == StatementDoc::Kind::node) nodes_[i].run_by = run_by[n++];
  }

  std::vector<PageNode> take() { return std::move(nodes_); }

  // `n_saved` of the last ones are kept for the backward.
  void mark_outputs(const std::vector<Literal>& outputs, size_t n_saved) {
    size_t n_given = outputs.size() - std::min(n_saved, outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      auto made = maker_.find(outputs[i].text);
      if (outputs[i].kind != Literal::Kind::value || made == maker_.end()) continue;
      (i < n_given ? nodes_[made->second].is_output : nodes_[made->second].is_saved) = true;
    }
  }

 private:
  void add(const StatementDoc& statement) {
    constexpr size_t most_detail = 600;
    PageNode node{.label = label_of(statement),
                  .detail = statement_text(statement),
                  .kind = kind_of(statement)};
    if (node.detail.size() > most_detail) node.detail = node.detail.substr(0, most_detail) + " ...";
    for (const auto& [name, value] : statement.args) read_inputs(value, node.inputs);
    for (const ValueDoc& result : statement.results)
      maker_[result.name] = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back(std::move(node));
  }

  void read_inputs(const Literal& value, std::vector<uint32_t>& inputs) const {
    for (const Literal& item : value.items) read_inputs(item, inputs);
    auto made = maker_.find(value.text);
    if (value.kind != Literal::Kind::value || made == maker_.end()) return;
    if (std::ranges::find(inputs, made->second) == inputs.end()) inputs.push_back(made->second);
  }

  std::vector<PageNode> nodes_;
  std::unordered_map<std::string, uint32_t> maker_;
};

}  // namespace

PageGraph page_graph(const Graph& graph, const PageGraphOptions& options) {
  constexpr size_t most_text = size_t{128} << 10;
  GraphDoc doc = describe_graph(graph, {});
  PageGraph out{.n_nodes = graph.nodes().size(), .text = print_document(doc)};
  if (out.text.size() > most_text)
    out.text = message("{}\n... {} more bytes", out.text.substr(0, most_text),
                       out.text.size() - most_text);
  if (doc.body.size() > report::most_drawn_nodes) return out;
  Boxes boxes(doc);
  boxes.mark_outputs(doc.outputs, options.n_saved);
  boxes.mark_runners(doc, options.run_by);
  out.nodes = boxes.take();
  return out;
}

}  // namespace tenon

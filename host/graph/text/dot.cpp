// Graphs as Graphviz text: a box a node, ovals for inputs and outputs, sub-graphs as clusters.
#include "graph/text/dot.h"

#include "ops/op_table.h"

namespace tenon {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

// Ops of one kind have one colour, so that a picture can be read from afar.
std::string_view colour_of(const OpEntry& op) {
  if (op.tags & (TN_TAG_MATMUL | TN_TAG_CONV)) return "#f6c6a8";
  if (op.tags & TN_TAG_REDUCTION) return "#f3e3a1";
  if (op.tags & TN_TAG_INPLACE) return "#f2b8c6";
  if (op.tags & TN_TAG_VIEW) return "#e6e6e6";
  if (op.tags & TN_TAG_POINTWISE) return "#cfe3c2";
  return "#ffffff";
}

class DotWriter {
 public:
  explicit DotWriter(const DotOptions& options) : options_(options) {}
  std::string take() { return std::move(out_); }

  void graph(const Graph& graph, const std::string& prefix) {
    for (ValueId v : graph.inputs()) value(graph, prefix, v, "#c2d6ef");
    if (options_.constants)
      for (ValueId v : graph.constants()) value(graph, prefix, v, "#dcd0ec");
    for (NodeId n = 0; n < graph.nodes().size(); ++n) node(graph, prefix, n);
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      std::string id = prefix + "out" + std::to_string(i);
      line(id + " [label=\"output " + std::to_string(i) + "\", shape=oval, fillcolor=\"#c2d6ef\"]");
      if (graph.outputs()[i] != no_value) edge(graph, prefix, graph.outputs()[i], id);
    }
  }

  void line(std::string_view text) { ((out_ += "  ") += text) += ";\n"; }
  void raw(std::string_view text) { out_ += text; }

 private:
  static std::string place(const Graph& graph, const std::string& prefix, ValueId v) {
    const GraphValue& value = graph.value(v);
    return prefix + (value.source == ValueSource::node ? "n" + std::to_string(value.source_index)
                                                       : "v" + std::to_string(v));
  }

  void value(const Graph& graph, const std::string& prefix, ValueId v, std::string_view colour) {
    line(place(graph, prefix, v) + " [label=\"" + escaped(display_name(graph, v)) + "\\n" +
         escaped(to_text(graph.value(v))) + "\", shape=oval, fillcolor=\"" + std::string(colour) +
         "\"]");
  }

  void edge(const Graph& graph, const std::string& prefix, ValueId from, const std::string& to) {
    bool hidden = !options_.constants && graph.value(from).source == ValueSource::constant;
    if (hidden) return;
    std::string label = options_.shapes ? " [label=\"" + escaped(to_text(graph.value(from))) + "\"]"
                                        : std::string();
    line(place(graph, prefix, from) + " -> " + to + label);
  }

  void node(const Graph& graph, const std::string& prefix, NodeId n) {
    const Node& node = graph.node(n);
    std::string id = prefix + "n" + std::to_string(n);
    std::string label = escaped(name_of(node.op));
    if (!node.module_path.empty()) label += "\\n" + escaped(node.module_path);
    line(id + " [label=\"" + label + "\", fillcolor=\"" +
         std::string(colour_of(entry_of(node.op))) + "\"]");
    Graph::for_each_use(node, [&](ValueId v) { edge(graph, prefix, v, id); });
    for (const Value& arg : node.args)
      if (arg.tag == Tag::graph) cluster(*arg.as<Graph>(), id);
  }

  void cluster(const Graph& sub, const std::string& owner) {
    std::string name = owner + "_g" + std::to_string(clusters_++);
    raw("  subgraph cluster_" + name + " {\n");
    line("label=\"" + escaped(sub.name) + "\"");
    graph(sub, name + "_");
    raw("  }\n");
  }

  const DotOptions& options_;
  std::string out_;
  size_t clusters_ = 0;
};

}  // namespace

std::string to_dot(const Graph& graph, const DotOptions& options) {
  DotWriter writer(options);
  writer.raw("digraph \"" + escaped(graph.name.empty() ? "graph" : graph.name) + "\" {\n");
  writer.line("rankdir=TB");
  writer.line("node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=10]");
  writer.line("edge [fontname=\"Helvetica\", fontsize=8]");
  writer.graph(graph, "");
  writer.raw("}\n");
  return writer.take();
}

}  // namespace tenon

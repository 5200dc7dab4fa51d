#include "debug/minify.h"

#include "core/error.h"
#include "graph/extract.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace tenon {

namespace {

using Nodes = std::vector<NodeId>;

// What of a message does not depend on where in which graph it happened.
std::string kind_of_message(const std::string& text) {
  std::string out;
  size_t from = text.find(": ");
  for (size_t i = from == text.npos ? 0 : from + 2; i < text.size() && text[i] != '\n'; ++i) {
    char c = text[i];
    bool is_digit = c >= '0' && c <= '9';
    if (!is_digit)
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  }
  constexpr size_t most = 80;
  return out.substr(0, most);
}

class Minifier {
 public:
  Minifier(const Graph& graph, const FailureJudge& judge,
           const std::function<void(size_t, size_t)>& on_progress)
      : graph_(graph), extractor_(graph), judge_(judge), on_progress_(on_progress) {}

  Minified run(Failure whole) {
    best_.failure = std::move(whole);
    nodes_.resize(graph_.nodes().size());
    std::iota(nodes_.begin(), nodes_.end(), NodeId{0});
    for (size_t chunk = (nodes_.size() + 1) / 2; chunk > 0;) {
      if (shrink(chunk))
        chunk = std::max<size_t>(1, (nodes_.size() + 1) / 2);
      else
        chunk = chunk == 1 ? 0 : (chunk + 1) / 2;
      if (nodes_.size() < 2) break;
    }
    return std::move(best_);
  }
  size_t tries() const { return best_.tries; }

 private:
  // One pass over all chunks; whether the graph became smaller.
  bool shrink(size_t chunk) {
    for (size_t begin = 0; begin < nodes_.size(); begin += chunk)
      if (chunk < nodes_.size() && take(part(begin, chunk, true))) return true;
    bool has_shrunk = false;
    for (size_t end = nodes_.size(); end > 0;) {
      size_t begin = end > chunk ? end - chunk : 0;
      if (nodes_.size() > 1 && take(part(begin, end - begin, false))) has_shrunk = true;
      end = std::min(begin, nodes_.size());
    }
    return has_shrunk;
  }
  Nodes part(size_t begin, size_t n, bool keep) const {
    Nodes out;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if ((i >= begin && i < begin + n) == keep) out.push_back(nodes_[i]);
    return out;
  }

  bool take(Nodes nodes) {
    if (nodes.empty() || nodes.size() >= nodes_.size()) return false;
    std::shared_ptr<Graph> graph = graph_of(nodes);
    if (!graph) return false;
    ++best_.tries;
    Failure failure = judge_(*graph);
    if (!is_same(failure, best_.failure)) return false;
    nodes_ = std::move(nodes);
    best_.graph = std::move(graph);
    best_.failure = std::move(failure);
    on_progress_(nodes_.size(), best_.tries);
    return true;
  }

  // Outputs are the results that no node of the set reads, and those of the graph.
  std::shared_ptr<Graph> graph_of(const Nodes& nodes) try {
    std::vector<bool> is_read(graph_.values().size());
    for (NodeId n : nodes)
      Graph::for_each_use(graph_.node(n), [&](ValueId v) { is_read[v] = true; });
    for (ValueId v : graph_.outputs())
      if (v != no_value) is_read[v] = false;
    std::vector<ValueId> outputs;
    for (NodeId n : nodes)
      for (uint32_t r = 0; r < graph_.node(n).n_results; ++r) {
        ValueId v = graph_.node(n).first_result + r;
        if (!is_read[v] && graph_.value(v).kind == ValueKind::tensor) outputs.push_back(v);
      }
    if (outputs.empty()) return nullptr;
    return extractor_.cut(nodes, {}, outputs).graph;
  } catch (const Error&) {
    return nullptr;  // such as a body that reads what is outside
  }

  const Graph& graph_;
  Extractor extractor_;
  const FailureJudge& judge_;
  const std::function<void(size_t, size_t)>& on_progress_;
  Nodes nodes_;
  Minified best_;
};

}  // namespace

bool is_same(const Failure& a, const Failure& b) {
  if (a.kind != b.kind) return false;
  if (a.kind == Failure::Kind::crash) return a.text == b.text;
  return a.kind != Failure::Kind::error || kind_of_message(a.text) == kind_of_message(b.text);
}

Minified minify(std::shared_ptr<const Graph> graph, const FailureJudge& judge,
                const std::function<void(size_t, size_t)>& on_progress) {
  Failure whole = judge(*graph);
  if (!whole) return {graph, whole, 1};
  Minifier minifier(*graph, judge, on_progress);
  Minified out = minifier.run(std::move(whole));
  ++out.tries;
  if (!out.graph) out.graph = graph;
  return out;
}

}  // namespace tenon

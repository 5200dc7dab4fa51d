// explain: tells of each captured graph what it has, and of all so far how many there are.
#include <tenon/plugin.hpp>

#include <cstdio>
#include <map>
#include <mutex>

using namespace tenon::plugin;

namespace {

/// The ops of a graph by name, the most frequent first.
std::string ops_of(const graph& g) {
  std::map<std::string, int> counts;
  for (uint32_t i = 0; i < g.size(); ++i) ++counts[std::string(sv(g.at(i).op_name))];
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater<>(), &std::pair<std::string, int>::second);
  std::string out;
  for (const auto& [name, n] : sorted) out += text("  {} x {}\n", n, name);
  return out;
}

std::string symbols_of(const graph& g) {
  std::string out;
  for (uint32_t s : g.symbols()) {
    expression e = g.expr(s);
    out += text("  {} is {}", sv(e.name), sv(e.source).empty() ? "data" : sv(e.source));
    out += e.upper == INT64_MAX ? text(", at least {}\n", e.lower)
                                : text(", {} to {}\n", e.lower, e.upper);
  }
  return out;
}

class Explain : public Backend {
 public:
  artifact compile(const tn_compile_request& request) {
    graph g(request);
    std::string body = ops_of(g) + symbols_of(g);
    std::string to = options(request).get<std::string>("to");
    {
      std::lock_guard lock(guarding_counts_);
      uint32_t number = graphs_++;
      ops_ += g.size();
      write(to, text("graph {} ({}): {} ops, {} inputs, {} outputs\n{}so far: {} graphs, {} ops\n",
                     number, sv(request.compile_id), g.size(), g.inputs().size(),
                     g.outputs().size(), body, graphs_, ops_));
    }
    return interpret(request.ctx, request.graph);
  }
  void reset() {
    std::lock_guard lock(guarding_counts_);
    graphs_ = ops_ = 0;
  }

 private:
  static void write(std::string_view to, const std::string& out) {
    if (to == "log") return log(TN_LOG_INFO, "explain", "{}", out);
    FILE* file = to == "stderr" ? stderr : stdout;
    std::fwrite(out.data(), 1, out.size(), file);
    std::fflush(file);
  }

  std::mutex guarding_counts_;
  uint32_t graphs_ = 0, ops_ = 0;
};

}  // namespace

TENON_PLUGIN_BACKENDS((Explain, "explain"))

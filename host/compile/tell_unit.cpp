// Facts of compiled graphs and of cuts; code that is timed.
#include "compile/tell_unit.h"

#include "backend/compile/declined.h"
#include "compile/told.h"
#include "core/error.h"
#include "core/joined.h"
#include "formats/json.h"
#include "graph/text/page_graph.h"
#include "ops/op_table.h"
#include "partition/from_graph.h"
#include "report/unit.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <chrono>

namespace tenon {

namespace {

using formats::Json;
using report::GraphFacts;
using report::Unit;
using report::Work;

constexpr size_t most_listed = 200;             // kernels, values, nodes of one graph
constexpr size_t most_text = size_t{64} << 10;  // bytes

std::string_view name_of(Stage stage) {
  constexpr std::string_view names[] = {"captured", "forward", "backward", "inference",
                                        "single op"};
  return names[static_cast<size_t>(stage)];
}

// ---- what a backend says of its code

std::string text(const Json& object, std::string_view name) {
  const Json* member = object.find(name);
  const auto* value = member ? std::get_if<std::string>(&member->value()) : nullptr;
  return value ? *value : "";
}

void read_kernels(const Json::Array& items, GraphFacts& facts) {
  for (const Json& item : items) {
    ++facts.n_kernels;
    if (facts.kernels.size() < most_listed)
      facts.kernels.push_back({text(item, "kind"), text(item, "name"), item["bytes"].integer(),
                               item["flops"].integer()});
  }
}

void read_buffers(const Json::Array& buffers, GraphFacts& facts) {
  for (const Json& b : buffers)
    if (facts.buffers.size() < most_listed)
      facts.buffers.push_back({text(b, "name"), b["offset"].integer(), b["bytes"].integer(),
                               b["first"].integer(), b["last"].integer()});
}

std::string joined_texts(const Json::Array& list) {
  std::vector<std::string> out;
  for (const Json& item : list)
    if (const auto* name = std::get_if<std::string>(&item.value())) out.push_back(*name);
  return joined(out);
}

// Zeros and empty lists say nothing.
std::string statistic(const Json& value) {
  if (const auto* list = std::get_if<Json::Array>(&value.value())) return joined_texts(*list);
  if (const auto* word = std::get_if<std::string>(&value.value())) return *word;
  std::string shown = value.dump();
  return shown == "0" || shown == "0.0" || shown == "false" ? "" : shown;
}

// A plugin may write anything; its code is as good without numbers.
void read_statistics(const std::string& json, GraphFacts& facts) try {
  Json root = formats::parse_json(json, "statistics of an artifact").root();
  const auto* members = std::get_if<Json::Object>(&root.value());
  if (!members) return;
  for (const auto& [name, value] : *members) {
    const auto* list = std::get_if<Json::Array>(&value.value());
    if (list && (name == "told" || name == "recorded")) continue;  // told_by() has them
    if (list && name == "items") {
      read_kernels(*list, facts);
    } else if (list && name == "buffers") {
      read_buffers(*list, facts);
    } else if (std::string shown = statistic(value); !shown.empty()) {
      facts.statistics.emplace_back(name, std::move(shown));
    }
  }
} catch (const Error&) {
  facts.statistics.clear();
}

void read_texts(const Artifact& artifact, GraphFacts& facts) {
  constexpr std::pair<int32_t, const char*> kinds[] = {
      {TN_DESC_SOURCE, "What was fused, what not, and why"},
      {TN_DESC_GRAPH, "Kernels and calls after fusion"},
      {TN_DESC_IR, "Loops before fusion"},
      {TN_DESC_MEMORY_PLAN, "Memory plan"}};
  for (const auto& [kind, title] : kinds) {
    std::string text = artifact.describe(kind);
    if (text.empty()) continue;
    if (text.size() > most_text)
      text = message("{}\n... {} more bytes", text.substr(0, most_text), text.size() - most_text);
    facts.texts.emplace_back(title, std::move(text));
  }
}

// ---- who runs what

void add_elsewhere(report::ElsewhereFacts node, GraphFacts& facts) {
  auto& all = facts.elsewhere;
  auto same = std::ranges::find_if(all, [&](const report::ElsewhereFacts& e) {
    return e.run_by == node.run_by && e.op == node.op && e.why == node.why;
  });
  if (same != all.end())
    same->n_nodes += node.n_nodes;
  else if (all.size() < most_listed)
    all.push_back(std::move(node));
}

void read_placement(const DeclineObserver& observer, GraphFacts& facts) {
  for (const DeclinedGraph& d : observer.declined())
    add_elsewhere({d.fallback, "", d.reason, d.n_nodes}, facts);
  for (const PlacedPiece& piece : observer.pieces()) {
    if (piece.run_by == piece.backend) continue;
    for (const PlacedNode& node : piece.nodes)
      add_elsewhere({piece.run_by, node.op, node.why, 1}, facts);
  }
}

GraphFacts facts_of(const CompileRequest& request, const Artifact& artifact,
                    const DeclineObserver& observer) {
  GraphFacts facts{.id = request.compile_id,
                   .stage = std::string(name_of(request.stage)),
                   .backend = request.backend};
  facts.graph =
      page_graph(*request.graph, {.n_saved = request.stage == Stage::forward ? request.n_saved : 0,
                                  .run_by = runners_of(*request.graph, request.backend, observer)});
  read_placement(observer, facts);
  read_statistics(artifact.describe(TN_DESC_STATS_JSON), facts);
  read_texts(artifact, facts);
  return facts;
}

// ---- time

/// Code of a unit.
class TimedArtifact final : public Artifact {
 public:
  TimedArtifact(std::shared_ptr<Artifact> inner, Unit& unit, Work work,
                std::shared_ptr<report::CodeTime> time)
      : inner_(std::move(inner)), unit_(unit), work_(work), time_(std::move(time)) {
    guards = inner_->guards;
    time_->ask = [code = inner_.get()] { return told_by(*code); };
  }
  ~TimedArtifact() override {
    std::lock_guard lock(time_->asking);
    time_->told = time_->ask();
    time_->ask = nullptr;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    report::TimeScope scope(&unit_, work_, time_.get());
    inner_->call(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t what) const override { return inner_->describe(what); }
  SavedArtifact save() const override { return inner_->save(); }

 private:
  std::shared_ptr<Artifact> inner_;
  Unit& unit_;
  Work work_;
  std::shared_ptr<report::CodeTime> time_;
};

std::shared_ptr<Artifact> made_and_told(const MakeCode& make, const CompileRequest& request,
                                        Unit& unit) {
  // A backward is compiled when the first gradient arrives: maybe on another thread, and outside of
  // any call.
  report::TimeScope time(&unit, Work::compile);
  auto begun = std::chrono::steady_clock::now();
  DeclineObserver observer;
  std::shared_ptr<Artifact> artifact = make(request);
  std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begun;
  GraphFacts facts = facts_of(request, *artifact, observer);
  facts.compile_ms = taken.count();
  Work work = request.stage == Stage::backward ? Work::backward : Work::forward;
  auto code_time = unit.note_graph(std::move(facts));
  return std::make_shared<TimedArtifact>(std::move(artifact), unit, work, std::move(code_time));
}

}  // namespace

MakeCode telling_unit(MakeCode make) {
  Unit* unit = report::current_unit();
  if (!unit) return make;
  return [make = std::move(make), unit](const CompileRequest& request) {
    return made_and_told(make, request, *unit);
  };
}

// ---- cuts

namespace {

report::SavedValue saved_value(const StagedGraph& staged, const partition::JointView& view,
                               size_t index) {
  const Graph& graph = *staged.lowered.graph;
  ValueId v = staged.cut.saved[index];
  const GraphValue& value = graph.value(v);
  partition::JointId joint = view.of_value[v];
  bool is_made = value.source == ValueSource::node;
  bool is_told = index < staged.cut.reasons.size();
  return {.name = display_name(graph, v),
          .type = to_text(value),
          .op = is_made ? tenon::name_of(graph.node(value.source_index).op) : "",
          .bytes = joint == partition::no_node ? 0 : view.graph.nodes[joint].bytes,
          .why = std::string(is_told ? staged.cut.reasons[index]
                                     : "as the cache on disk has it, which keeps no reasons")};
}

// How many nodes of each op run in both halves.
std::map<std::string, int64_t> recomputed_ops(const Graph& graph, const partition::Decision& cut) {
  std::map<std::string, int64_t> out;
  std::vector<bool> is_forward(graph.nodes().size());
  for (NodeId n : cut.forward) is_forward[n] = true;
  for (NodeId n : cut.backward)
    if (is_forward[n]) ++out[tenon::name_of(graph.node(n).op)];
  return out;
}

}  // namespace

void tell_cut(const StagedGraph& staged, const std::string& compile_id) {
  Unit* unit = report::current_unit();
  if (!unit) return;
  const Graph& graph = *staged.lowered.graph;
  partition::JointView view = partition::view_of(staged.lowered);
  report::SavedFacts facts{.id = compile_id,
                           .recomputed = recomputed_ops(graph, staged.cut),
                           .n_forward = staged.cut.forward.size(),
                           .n_backward = staged.cut.backward.size()};
  for (size_t i = 0; i < staged.cut.saved.size(); ++i) {
    facts.values.push_back(saved_value(staged, view, i));
    if (!facts.values.back().op.empty()) facts.bytes += facts.values.back().bytes;
  }
  std::ranges::stable_sort(facts.values, std::greater(), &report::SavedValue::bytes);
  if (facts.values.size() > most_listed) {
    facts.n_more = facts.values.size() - most_listed;
    facts.values.resize(most_listed);
  }
  unit->note_saved(std::move(facts));
}

}  // namespace tenon

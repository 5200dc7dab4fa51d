// Writing sessions.
#include "runtime/recorded_calls.h"

#include "config/config.h"
#include "core/error.h"
#include "core/tensor/tensor_impl.h"
#include "formats/tensors.h"
#include "graph/text/print.h"
#include "report/dumps.h"
#include "report/events.h"
#include "report/log.h"

#include <tenon/autograd.h>

#include <atomic>
#include <fstream>
#include <limits>
#include <mutex>

namespace tenon {

namespace {

/// The session of this process. Lines of several threads take turns.
class Session {
 public:
  static Session& instance() {
    static auto* session = new Session;
    return *session;
  }
  /// Keeps a graph and gives its file name; empty where that cannot be.
  std::string keep(const Graph& graph) {
    if (folder_.empty()) return "";
    std::string name = message("graph_{}.tng", n_graphs_++);
    constexpr PrintOptions whole{.inline_elements = std::numeric_limits<size_t>::max()};
    report::write_dump(folder_, name, to_text(graph, whole));
    return name;
  }
  int64_t next_call() { return n_calls_++; }
  void write_line(const std::string& line) {
    std::lock_guard lock(writing_);
    std::ofstream file(folder_ + "/calls.jsonl", std::ios::app | std::ios::binary);
    file << line << '\n';
  }
  const std::string& folder() const { return folder_; }

 private:
  Session() : folder_(report::dump_folder("calls")) {
    report::write_dump(folder_, "flags.toml", config::save_portable());
    if (!folder_.empty())
      report::log(report::LogLevel::info, "runtime",
                  "calls of compiled code are recorded in {}; see tenon replay --help", folder_);
  }

  std::string folder_;
  std::atomic<int64_t> n_graphs_{0}, n_calls_{0};
  std::mutex writing_;
};

std::string listed(IntList numbers) {
  std::string out;
  for (int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return "[" + out + "]";
}

std::string described(const Tensor& t) {
  if (!t.defined()) return "null";
  Extent extent = extent_of(t);
  return message("{{\"dtype\": {}, \"sizes\": {}, \"strides\": {}}}",
                 report::json_text(name_of(t.dtype())), listed(extent.sizes),
                 listed(extent.strides));
}

using Tensors = std::vector<Tensor>;

void keep_values(const std::string& path, const Tensors& inputs, const Tensors& outputs) {
  formats::NamedTensors values;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) values.tensors[message("in.{}", i)] = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].defined()) values.tensors[message("out.{}", i)] = outputs[i].detach();
  formats::write_tensors(path, values);
}

class RecordedArtifact final : public Artifact {
 public:
  RecordedArtifact(std::shared_ptr<Artifact> inner, std::string graph, std::string_view backend,
                   bool keeps_values)
      : inner_(std::move(inner)),
        graph_(std::move(graph)),
        backend_(backend),
        keeps_values_(keeps_values) {
    guards = inner_->guards;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    int64_t number = Session::instance().next_call();
    Tensors before = note(number, inputs, syms);
    inner_->call(inputs, syms, outputs, steal);
    if (keeps_values_) keep(number, before, {outputs.begin(), outputs.end()});
  }
  std::string describe(int32_t what) const override { return inner_->describe(what); }
  SavedArtifact save() const override { return inner_->save(); }

 private:
  static std::string file_of(int64_t number) { return message("call_{}.safetensors", number); }

  void keep(int64_t number, const Tensors& inputs, const Tensors& outputs) const noexcept try {
    NoGradGuard no_history;
    keep_values(Session::instance().folder() + "/" + file_of(number), inputs, outputs);
  } catch (const std::exception& error) {
    warn(error);
  }

  // The line of a call, and what its inputs were where values are kept.
  Tensors note(int64_t number, std::span<detail::TensorHead*> inputs,
               std::span<const int64_t> syms) const noexcept try {
    NoGradGuard no_history;
    std::string list;
    Tensors values;
    for (detail::TensorHead* head : inputs) {
      Tensor t = head ? share(head) : Tensor();
      list += (list.empty() ? "" : ", ") + described(t);
      values.push_back(keeps_values_ && head ? t.clone() : Tensor());
    }
    std::string file = keeps_values_ ? report::json_text(file_of(number)) : "null";
    Session::instance().write_line(message(
        "{{\"call\": {}, \"graph\": {}, \"backend\": {}, \"inputs\": [{}], \"symbols\": {}, "
        "\"values\": {}}}",
        number, report::json_text(graph_), report::json_text(backend_), list,
        listed(IntList(syms.data(), syms.size())), file));
    if (keeps_values_) keep(number, values, {});
    return values;
  } catch (const std::exception& error) {
    warn(error);
    return {};
  }

  static void warn(const std::exception& error) {
    report::warn_once("recorded calls", "runtime",
                      std::string("a call was not recorded: ") + error.what());
  }

  std::shared_ptr<Artifact> inner_;
  std::string graph_, backend_;
  bool keeps_values_;
};

}  // namespace

std::shared_ptr<Artifact> recorded_artifact(const std::shared_ptr<Graph>& graph,
                                            std::shared_ptr<Artifact> artifact,
                                            std::string_view backend) {
  const config::choice_flag& wanted = config::flags().compiler.record_calls;
  if (wanted == "off") return artifact;
  std::string file = Session::instance().keep(*graph);
  if (file.empty()) return artifact;
  return std::make_shared<RecordedArtifact>(std::move(artifact), file, backend, wanted == "values");
}

}  // namespace tenon

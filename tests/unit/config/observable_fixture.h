// The fixture of tests that show what a flag does: backends that keep the graphs they get.
#pragma once

#include "backend/backend.h"
#include "report/events.h"
#include "report/log.h"
#include "runtime/call.h"
#include "unit/config/config_fixture.h"
#include "unit/message_of.h"

#include <tenon/compile.h>
#include <tenon/ops.h>

namespace tenon {

inline const Options keeping{.backend = "keeping"};

class Observable : public config::Config {
 protected:
  void SetUp() override {
    Config::SetUp();
    variable("TENON_DYNAMO_DEBUG_DIR_ROOT", (root_ / "dumps").string());
    config::reload();
    graphs().clear();
    register_backend("keeping", &keep, {"debug"});
    register_backend("adding_one", &add_one, {"debug"});
    register_backend("failing", &fail_always, {"debug"});
  }

  /// What the backends got, in order.
  static std::vector<std::shared_ptr<Graph>>& graphs() {
    static std::vector<std::shared_ptr<Graph>> graphs;
    return graphs;
  }
  static size_t n_nodes() { return graphs().empty() ? 0 : graphs().back()->nodes().size(); }

  /// The paths below the folder of dumps, without the number of the process.
  std::vector<std::string> dumps() const {
    std::vector<std::string> out;
    std::error_code error;
    for (auto& entry : std::filesystem::recursive_directory_iterator(root_ / "dumps", error))
      if (entry.is_regular_file()) out.push_back(entry.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  std::string dump(const std::string& name) const {
    for (auto& entry : std::filesystem::recursive_directory_iterator(root_ / "dumps"))
      if (entry.path().filename() == name) return text_of(entry.path().string());
    return "";
  }

  static std::shared_ptr<Artifact> keep(const CompileRequest& request) {
    graphs().push_back(request.graph);
    return interpreter_artifact(request.graph);
  }

 private:
  // Right but for its first output, which is `error` too large (flips where it is a bool).
  class Wrong final : public Artifact {
   public:
    explicit Wrong(std::shared_ptr<Graph> graph) : inner_(interpreter_artifact(std::move(graph))) {}
    void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
              std::span<Tensor> outputs, bool steal) override {
      inner_->call(inputs, syms, outputs, steal);
      outputs[0] =
          outputs[0].dtype() == Dtype::bool_ ? outputs[0].logical_not() : outputs[0] + amount();
    }
    std::string describe(int32_t) const override { return ""; }

   private:
    std::shared_ptr<Artifact> inner_;
  };

 protected:
  static double& amount() {
    static double amount = 1;
    return amount;
  }
  static std::shared_ptr<Artifact> add_one(const CompileRequest& request) {
    graphs().push_back(request.graph);
    return std::make_shared<Wrong>(request.graph);
  }
  static std::shared_ptr<Artifact> fail_always(const CompileRequest& request) {
    graphs().push_back(request.graph);
    throw BackendError(ErrorCode::backend_compiler_failed, 1, "this backend always fails");
  }
};

}  // namespace tenon

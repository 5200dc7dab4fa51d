// graph_dumper: keeps each graph, and what its inputs are, in a folder; then runs it node by node.
//
//   <dir>/<name>/<name>_forward_0/graph.tng               what was compiled
//                                 <name>_forward_0.input  one line an input
//                                 inputs.safetensors      of the first call, where asked for
//                                 command.sh              runs it again
//                <name>_joint_0/...                       what both halves were cut from
//                <name>_backward_0/...
//
// The number grows after each backward graph, and before a joint or a forward graph that follows a
// forward graph, so that a joint graph and its halves have the same one and nothing is overwritten.
#include "inputs.h"

#include <atomic>
#include <mutex>

using namespace tenon::plugin;

namespace {

namespace fs = std::filesystem;

/// Runs the graph; the first call leaves its inputs behind.
class Dumped {
 public:
  Dumped(artifact inner, fs::path values) : inner_(std::move(inner)), values_(std::move(values)) {}
  static constexpr uint32_t flags = TN_AF_STEALS_INPUTS;

  void call(tn_call& c) {
    if (!values_.empty() && !is_written_.exchange(true)) write_values(values_, c);
    inner_.call(c);
  }

 private:
  artifact inner_;
  fs::path values_;  // empty: none are kept
  std::atomic<bool> is_written_{false};
};

// Names become parts of paths.
void check_name(const std::string& name) {
  if (!name.empty() && name != "." && name != ".." && name.find('/') == name.npos) return;
  throw error(TN_INVALID_ARGUMENT,
              text("graph_dumper: the option name is \"{}\"; expected a name without '/', such as "
                   "\"model\"",
                   name));
}

constexpr const char* command =
    "#!/bin/sh\n"
    "# Runs the graph again, with the inputs of its first call where they were kept.\n"
    "cd \"$(dirname \"$0\")\" || exit\n"
    "test -f inputs.safetensors && set -- --inputs inputs.safetensors \"$@\"\n"
    "exec tenon run graph.tng \"$@\"\n";

enum class Kind { joint, forward, backward };
constexpr const char* kind_names[] = {"joint", "forward", "backward"};

// A joint graph takes tangents, and is no half.
Kind kind_of(const graph& g, int32_t stage) {
  if (stage == TN_STAGE_BACKWARD) return Kind::backward;
  for (uint32_t id : g.inputs())
    if (g.value_at(id).flags & TN_V_TANGENT) return Kind::joint;
  return Kind::forward;
}

class GraphDumper : public Backend {
 public:
  std::unique_ptr<Dumped> compile(const tn_compile_request& request) {
    options given(request);
    std::string name = given.get<std::string>("name");
    check_name(name);
    bool keeps_values = given.get<bool>("inputs");
    fs::path values;
    if (graph g(request); g.size() == 0)
      log(TN_LOG_WARN, "graph_dumper",
          "graph {} of {} is empty: nothing is written; does the function return its arguments?",
          sv(request.compile_id), name);
    else
      values = write(g, request, given.get<std::string>("dir"), name);
    return std::make_unique<Dumped>(interpret(request.ctx, request.graph),
                                    keeps_values ? values : fs::path());
  }
  void reset() {
    std::lock_guard lock(guarding_number_);
    number_ = 0;
    has_forward_ = false;
  }

 private:
  /// The file that values belong into.
  fs::path write(const graph& g, const tn_compile_request& request, const fs::path& dir,
                 const std::string& name) {
    Kind kind = kind_of(g, request.stage);
    std::string own =
        text("{}_{}_{}", name, kind_names[static_cast<size_t>(kind)], next_number(kind));
    fs::path folder = dir / name / own;
    write_file(folder / "graph.tng", g.dump());
    write_file(folder / (own + ".input"), inputs_of(g));
    write_file(folder / "command.sh", command);
    fs::permissions(folder / "command.sh", fs::perms::owner_exec, fs::perm_options::add);
    return folder / "inputs.safetensors";
  }
  uint32_t next_number(Kind kind) {
    std::lock_guard lock(guarding_number_);
    if (kind != Kind::backward && has_forward_) ++number_;  // whose backward never came
    has_forward_ = kind == Kind::forward;
    return kind == Kind::backward ? number_++ : number_;
  }

  std::mutex guarding_number_;
  uint32_t number_ = 0;
  bool has_forward_ = false;  // of this number
};

}  // namespace

TENON_PLUGIN_BACKENDS((GraphDumper, "graph_dumper"))

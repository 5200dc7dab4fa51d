// Compiling a graph with a backend by name: what the rooms to the right see of the plugins.
//
// A backend is a manifest entry of a plugin, the host's interpreter ("eager" where no plugin offers
// it), or a callable that the program registered. The plugin is loaded at the first compile.
#pragma once

#include "graph/artifact.h"
#include "graph/graph.h"
#include "ops/modes/autocast_state.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

enum class Stage : int32_t {
  captured = 0,
  forward = 1,
  backward = 2,
  inference = 3,
  single_op = 4
};

/// The hash_text() of a graph that was read from where it is kept, which need not be written anew.
struct KnownHash {
  const Graph* graph = nullptr;  ///< of another one it says nothing
  std::string digest = {};
};

/// What a compile is asked for; see tn_compile_request.
struct CompileRequest {
  std::shared_ptr<Graph> graph;
  KnownHash known_hash = {};
  Stage stage = Stage::captured;
  std::vector<uint32_t> static_inputs;    ///< inputs whose address stays: parameters, buffers
  std::vector<uint32_t> mutated_inputs;   ///< inputs that the artifact must update in place
  std::vector<uint32_t> aliased_outputs;  ///< per output: the input it must alias, or no_value
  uint32_t n_saved = 0;
  bool is_partial = false;  ///< a backward for some results only
  bool dynamic = false, grad_enabled = false, deterministic = false;
  AutocastState autocast;    ///< what the caller's ops are cast to
  std::string options_toml;  ///< options of the call: "max_autotune = true"
  std::string mode;          ///< "default", or a mode of the manifest
  std::string compile_id;    ///< "0/1", for logs
  std::string backend;       ///< that was asked first, for reports
  /// The backends that are compiling this graph already, as "plugin/backend", outermost first.
  std::vector<std::string> chain;
};

/// The device that a graph runs on: that of its first tensor that is not on the CPU; nothing for
/// graphs on the CPU.
std::optional<Device> device_of(const Graph& graph);

/// "sm_90": what code for that device is made for, as far as the device is there; empty for graphs
/// on the CPU. Part of the keys of what is kept on disk.
std::string architecture_of(const Graph& graph);

/// "stage inference, graph f, compilation 0/1": what is compiled, for the report of a crash.
std::string place_text(const CompileRequest& request);

/// A request for a piece of the request's graph, or for one made from it: the same but for what
/// counts inputs and outputs, which is read off the piece. `n_saved` is 0: nothing of it has a
/// layout of its own.
CompileRequest request_for_piece(const CompileRequest& request, std::shared_ptr<Graph> piece);

/// Static facts of a backend, from its manifest.
struct BackendInfo {
  std::string name, plugin, version, description, file, state;
  std::vector<std::string> tags, devices, stages;
  Stage stage = Stage::captured;  ///< captured, or inference for "aot"
  bool dynamic_shapes = true;
  std::string partitioner, decompositions;
  std::vector<std::string> decomposition_ops;  ///< when `decompositions` is a list
  std::vector<std::string> kept_ops;           ///< left whole whatever the set says
  bool makes_code = false;                     ///< the system may forbid that: can_make_code()
  bool keep_inference_input_mutations = false;
  bool debug_assert = false;  ///< its graphs are verified, as functorch.debug_assert does for all
  std::string fallback = "eager";
};

/// The name that an empty one stands for: compiler.default_backend, or aot_eager where that is
/// inductor and cannot be used. Warns once if it is installed all the same.
std::string default_backend();
/// Whether it only runs what another backend compiled.
bool is_runtime(const BackendInfo& backend);
/// The facts of a backend; throws UserError InvalidBackend with the nearest names.
BackendInfo backend_info(const std::string& name);
/// The same of the plugin that serves the device of the graph under this name.
BackendInfo backend_info(const std::string& name, const Graph& graph);
std::vector<BackendInfo> all_backends();
/// Throws UserError for a backend that there is not, a mode that it does not have, or options (as
/// TOML) that it does not know or that do not fit. What the plugin for any device has is known.
void check_backend_options(const std::string& backend, const std::string& mode,
                           const std::string& options_toml);

/// Compiles with a backend as it is (no stages before it). Throws BackendError
/// BackendCompilerFailed; a backend that declines is replaced by its fallback and counted.
std::shared_ptr<Artifact> compile_with_backend(const std::string& name,
                                               const CompileRequest& request);

/// What a plugin saved, as code again: a backend whose manifest says that it loads those of
/// `saved.backend` is asked first, then that one itself, unless its fingerprint is another one by
/// now. Throws BackendError where neither is installed, or where the code cannot run here.
std::shared_ptr<Artifact> load_with_backend(const SavedArtifact& saved,
                                            const CompileRequest& request);

/// Throws BackendError unless the file at `path`, open as `descriptor`, may hold code for this
/// process: the rules of plugins.trust, as for plugins. What is mapped afterwards must be mapped
/// from that descriptor, since the name may mean another file by then.
void check_trusted_code(const std::string& path, int descriptor);

/// Registers a callable of this program as a backend for this process; with Stage::inference it
/// gets functional graphs, and the halves of those that are differentiated.
using BackendFunction = std::function<std::shared_ptr<Artifact>(const CompileRequest&)>;
void register_backend(std::string name, BackendFunction compile, std::vector<std::string> tags,
                      Stage stage = Stage::captured);
/// The same with all that a manifest would say.
void register_backend(BackendFunction compile, BackendInfo info);

/// Drops the code of eager ops on devices, and what is known of who compiles it.
void forget_single_ops();

/// The plugins that offer CPU kernels for an op, the first to be asked first. Loads nothing.
std::vector<std::string> kernel_plugins(const std::string& op);
/// Kernels that plugins offer ([[kernels]]) are attached to the op table at the first call of an
/// op.
void install_plugin_kernels();

}  // namespace tenon

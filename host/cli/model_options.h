// Options that the verbs on models share, and what they have in common.
#pragma once

#include "cli/graph_file.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "debug/random_inputs.h"
#include "model/model_runner.h"

#include <string>
#include <vector>

namespace tenon::cli {

/// The options of archives, and how they are compiled.
void add_model_options(Options& app, ModelOptions& options);

/// The device of --device. Throws UserError for one that there is not.
Device device_of(const ModelOptions& options);
/// The names of one --backend option, or the default backend; throws UserError for unknown ones.
std::vector<std::string> backend_names(const std::vector<std::string>& given);
/// Backends that print do so on stderr, unless a flag says otherwise: for JSON on stdout.
void leave_stdout_to_json();
/// Throws UserError for `-o -` beside --json, which would be two documents on stdout.
void require_file_beside_json(const std::string& output, const Globals& globals);

/// The archive, or the file of compiled code, ready to run.
struct LoadedModel {
  std::shared_ptr<const formats::Pt2Program> program;
  std::unique_ptr<ModelRunner> runner;
};
/// With `training`, calls are recorded on the tape and parameters need gradients. A file of
/// compiled code has its own backend.
LoadedModel load_model(const std::string& path, const ModelOptions& options,
                       const std::string& backend, bool training = false);

/// Inputs by --inputs FILE, --input NAME=SPEC, else made up from the signature.
struct InputOptions {
  std::string file;                ///< tensors called in.N or by the names of inputs
  std::vector<std::string> specs;  ///< "x=f32[1,3]:rand", "y=@file.npy"
};
void add_input_options(Options& app, InputOptions& options);
/// Replaces inputs by the given ones; `find` gives the position of a name, or throws.
void fill_inputs(std::vector<Tensor>& inputs, const InputOptions& options,
                 const std::function<size_t(const std::string& name)>& find);
/// On the model's device.
std::vector<Tensor> make_leaves(const LoadedModel& model, const InputOptions& options);
/// The options with the recording beside the model (NAME.io.safetensors) as the file, where nothing
/// was given: random numbers do not suit every input, such as the offsets of an embedding bag.
InputOptions or_recorded(InputOptions options, const std::string& model);

/// What a backend says of its code: {"kernels": ..., "extern_calls": ..., "extern_ops": [...]}.
Json stats_of(const std::string& text);

}  // namespace tenon::cli

// The compilers of functorch.compile: names of backends, and backends that are made of others.
#include "backend/backend.h"
#include "backend/carried_plugins.h"
#include "config/config.h"
#include "core/error.h"
#include "core/sym/shape_env.h"
#include "formats/tensors.h"
#include "graph/interpret.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "report/log.h"

#include <tenon/autograd.h>
#include <tenon/functorch.h>
#include <tenon/ops.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace tenon::functorch {

namespace {

namespace fs = std::filesystem;

// A text of TOML.
std::string quoted(const std::string& plain) {
  std::string out = "\"";
  for (char c : plain) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// A backend with options of its own, under a name that says so.
std::string with_options(const std::string& backend, const std::string& name,
                         const std::string& options_toml) {
  BackendInfo info = backend_info(backend);
  check_backend_options(backend, "", options_toml);
  info.name = name;
  info.plugin = "program";
  register_backend(
      [backend, options_toml](const CompileRequest& request) {
        CompileRequest with = request;
        with.options_toml = options_toml;
        return compile_with_backend(backend, with);
      },
      std::move(info));
  return name;
}

// ---- made-up inputs

int64_t seen(const tenon::Graph& graph, SymInt size) {
  if (!size.is_symbolic()) return size.word();
  std::optional<int64_t> hint = graph.shape_env ? graph.shape_env->int_hint(size) : std::nullopt;
  require(hint.has_value(),
          "get_inputs: size {} of the graph is known at run time only; expected one that was seen "
          "while the graph was recorded",
          size);
  return *hint;
}

std::vector<int64_t> seen(const tenon::Graph& graph, const std::vector<SymInt>& sizes) {
  std::vector<int64_t> out;
  for (SymInt s : sizes) out.push_back(seen(graph, s));
  return out;
}

/// `recorded`: what the graph was called with, or nothing. Positions and lengths are kept: others
/// might be out of range.
Tensor made_up(const tenon::Graph& graph, const GraphValue& value, const Tensor& recorded) {
  const auto& meta = value.meta;
  std::vector<int64_t> sizes = seen(graph, {meta.sizes.begin(), meta.sizes.end()});
  std::vector<int64_t> strides = seen(graph, {meta.strides.begin(), meta.strides.end()});
  NoGradGuard no_grad;
  bool is_real = is_floating(meta.dtype) || is_complex(meta.dtype);
  bool is_kept = !is_real && recorded.defined() && recorded.dtype() == meta.dtype &&
                 std::ranges::equal(recorded.sizes(), sizes, {}, &SymInt::word);
  Tensor numbers = is_real   ? randn(IntList(sizes), meta.dtype)
                   : is_kept ? recorded
                             : randint(2, IntList(sizes), Dtype::i64).to(meta.dtype);
  Tensor out = empty_strided(IntList(sizes), IntList(strides), meta.dtype);
  out.copy_(numbers);
  return out;
}

using Recorded = std::map<std::string, Tensor>;  // "in.0" and so on

std::vector<Tensor> inputs_for(const tenon::Graph& graph, const Recorded& recorded = {}) {
  std::vector<Tensor> out;
  for (ValueId id : graph.inputs()) {
    const GraphValue& value = graph.value(id);
    auto kept = recorded.find(message("in.{}", out.size()));
    if (value.kind == ValueKind::tensor)
      out.push_back(made_up(graph, value, kept == recorded.end() ? Tensor() : kept->second));
    else
      out.push_back(number_tensor(value.scalar.is_integer()
                                      ? Number(SymInt(seen(graph, value.scalar.sym_int())))
                                      : Number(SymFloat(1.0))));
  }
  return out;
}

// ---- debug_compile

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  require(static_cast<bool>(out),
          "debug_compile: {} cannot be written; choose a folder that can be", path.string());
}

void write_inputs(const fs::path& path, const std::vector<Tensor>& inputs) {
  formats::NamedTensors file;
  for (size_t i = 0; i < inputs.size(); ++i) file.tensors.emplace(message("in.{}", i), inputs[i]);
  formats::write_tensors(path.string(), file);
}

void run_once(const CompileRequest& request, const std::vector<Tensor>& inputs) {
  NoGradGuard no_grad;
  std::vector<detail::TensorHead*> heads;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool is_tensor = request.graph->value(request.graph->inputs()[i]).kind == ValueKind::tensor;
    heads.push_back(is_tensor ? inputs[i].head() : nullptr);
  }
  std::vector<Tensor> outputs(request.graph->outputs().size());
  Interpreter(request.graph).run(heads, {}, outputs);
}

fs::path next_folder(const fs::path& dir) {
  static std::atomic<uint32_t> number{0};
  for (;;) {
    fs::path folder = dir / message("graph_{}", number++);
    std::error_code failed;
    if (fs::exists(folder, failed)) continue;
    fs::create_directories(folder, failed);
    require(!failed, "debug_compile: the folder {} cannot be made: {}", folder.string(),
            failed.message());
    return folder;
  }
}

std::shared_ptr<Artifact> compile_watched(const CompileRequest& request, const fs::path& dir) {
  fs::path folder = next_folder(dir);
  write_text(folder / "graph.tng", to_text(*request.graph));
  write_text(folder / "flags.toml", config::save_portable());
  write_text(
      folder / "command.sh",
      "#!/bin/sh\ncd \"$(dirname \"$0\")\" &&\nexec tenon run graph.tng --backend ts --inputs "
      "inputs.safetensors --config flags.toml" +
          carried_plugin_words(folder.string(), "ts") + " \"$@\"\n");
  std::vector<Tensor> inputs = inputs_for(*request.graph);
  write_inputs(folder / "inputs.safetensors", inputs);
  report::log(report::LogLevel::info, "aot", "debug_compile: graph {} is in {}", request.compile_id,
              folder.string());
  run_once(request, inputs);
  return compile_with_backend("ts", request);
}

}  // namespace

std::string ts_compile() { return "ts"; }
std::string simple_ts_compile() { return "simple_ts"; }
std::string nop() { return "aot_eager"; }
std::string debug_nop() { return "debug_nop"; }
std::string print_compile() { return "print"; }

std::string draw_graph_compile(const std::string& name) {
  return with_options("draw_graph", message("draw_graph({})", name),
                      message("name = {}\n", quoted(name)));
}

std::string graph_dumper_aot(const std::string& name, const std::string& dir, bool dump_inputs) {
  return with_options(
      "graph_dumper", message("graph_dumper({},{},{})", name, dir, dump_inputs),
      message("name = {}\ndir = {}\ninputs = {}\n", quoted(name), quoted(dir), dump_inputs));
}

std::string debug_compile(const std::string& dir) {
  require(!dir.empty(), "debug_compile: the folder is empty; expected the name of one");
  BackendInfo info = backend_info("ts");
  info.name = message("debug_compile({})", dir);
  info.plugin = "program";
  std::string name = info.name;
  register_backend([dir](const CompileRequest& request) { return compile_watched(request, dir); },
                   std::move(info));
  return name;
}

std::string compiler(const std::string& name, compiler::BackendFunction compile) {
  require(!name.empty(), "compiler: the name is empty; expected one for messages");
  static std::atomic<uint32_t> number{0};
  std::string captured = message("compiler({},{})", name, number++);
  compiler::register_backend(captured, std::move(compile), {"experimental"});
  BackendInfo info = backend_info(captured);
  info.stage = Stage::inference;
  info.name = "aot_" + captured;
  std::string out = info.name;
  register_backend(
      [captured](const CompileRequest& request) { return compile_with_backend(captured, request); },
      std::move(info));
  return out;
}

std::vector<Tensor> get_inputs(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  require(in.good() || in.eof(), "get_inputs: {} cannot be read; expected a file of graph text",
          file);
  std::shared_ptr<tenon::Graph> graph = parse_graph(text.str(), {});
  fs::path kept = fs::path(file).parent_path() / "inputs.safetensors";
  std::error_code unknown;
  if (!fs::exists(kept, unknown)) return inputs_for(*graph);
  return inputs_for(*graph, formats::read_tensors(kept.string()).tensors);
}

}  // namespace tenon::functorch

// SPDX-License-Identifier: Apache-2.0
// Ahead-of-time compilation of training functions with its parts chosen one by one.
//
//     auto f = tenon::memory_efficient_fusion([](const Tensor& x) { return gelu(x) * x; });
//     auto g = tenon::aot_function(body, {.fw_compiler = "print", .bw_compiler = "aot_eager"});
//
// The result is a compiled callable like that of tenon::compile(): it has guards and is compiled
// anew for arguments of another kind. Threads: all functions may be called from any thread.
#pragma once

#include <tenon/compile.h>
#include <tenon/compiler.h>

#include <string>
#include <vector>

namespace tenon {

struct AotOptions {
  /// Backend of forward halves and of graphs without gradients; empty: the default backend.
  std::string fw_compiler;
  std::string bw_compiler;  ///< of backward halves; empty: fw_compiler
  std::string partition;    ///< "default" or "min_cut"; empty: what fw_compiler asks for
  /// Ops that are taken apart besides those that fw_compiler asks for: "none", "core_aten",
  /// "inductor" or "default_decompositions"; empty: none.
  std::string decompositions;
};

/// The backend that stands for these choices; made at the first use, the same name for equal ones.
/// Throws UserError for a backend, partition or set that there is not.
TENON_API std::string aot_backend(const AotOptions& aot);

/// Compiles a callable with these choices; `options` are those of compile(), but for the backend.
template <class F>
CompiledFunction<std::decay_t<F>> aot_function(F&& fn, const AotOptions& aot = {},
                                               Options options = {}) {
  options.backend = aot_backend(aot);
  return compile(std::forward<F>(fn), std::move(options));
}

/// The same for a module with a call operator; parameters stay those of the module.
template <class M>
CompiledFunction<std::decay_t<M>> aot_module(M&& module, const AotOptions& aot = {},
                                             Options options = {}) {
  return aot_function(std::forward<M>(module), aot, std::move(options));
}

/// aot_function() with the min-cut partition and default_decompositions, which leave cheap ops that
/// a fusing backend computes again instead of reading them from memory. What `overrides` names
/// wins.
template <class F>
CompiledFunction<std::decay_t<F>> memory_efficient_fusion(F&& fn, AotOptions overrides = {},
                                                          Options options = {}) {
  if (overrides.partition.empty()) overrides.partition = "min_cut";
  if (overrides.decompositions.empty()) overrides.decompositions = "default_decompositions";
  return aot_function(std::forward<F>(fn), overrides, std::move(options));
}

/// The ops of the set "default_decompositions": PyTorch's, as far as they have parts here.
TENON_API std::vector<std::string> default_decompositions();

/// The compilers of functorch.compile, by the names that AotOptions and Options::backend take:
///
///     auto f = aot_function(body, {.fw_compiler = functorch::draw_graph_compile("forward.svg"),
///                                  .bw_compiler = functorch::nop()});
namespace functorch {

/// A compact program with frozen constants and fused formulas; the simple one only freezes.
TENON_API std::string ts_compile();
TENON_API std::string simple_ts_compile();
TENON_API std::string nop();            ///< the graph as it is, node by node
TENON_API std::string debug_nop();      ///< the same, each result compared with what tracing said
TENON_API std::string print_compile();  ///< prints the graph first
/// Draws the graph first; the file's extension says the format.
TENON_API std::string draw_graph_compile(const std::string& name);
/// Keeps graphs in `<dir>/<name>/<name>_{forward,backward}_<k>/`, with the inputs of their first
/// calls where asked for.
TENON_API std::string graph_dumper_aot(const std::string& name, const std::string& dir,
                                       bool dump_inputs = false);
/// Writes each graph into a folder below `dir`, with made-up inputs and a command.sh that runs it
/// again, runs it once, and compiles it with ts. A graph that fails is then there to be looked at.
TENON_API std::string debug_compile(const std::string& dir);

/// A compiler of the program: it is called with each graph and fakes of its inputs, and returns the
/// code. Each call makes another one; `name` is for messages.
TENON_API std::string compiler(const std::string& name, compiler::BackendFunction compile);

/// Made-up inputs for the graph in a file of graph text (.tng): normal numbers, integers 0 and 1, or
/// those of an inputs.safetensors beside the file; bools; with the strides that the graph says,
/// symbols by what was seen while it was recorded.
TENON_API std::vector<Tensor> get_inputs(const std::string& file);

}  // namespace functorch

/// Compiles a callable into fused loops that are interpreted: no code is generated.
template <class F>
CompiledFunction<std::decay_t<F>> nnc_jit(F&& fn, Options options = {}) {
  options.backend = "nnc";
  return compile(std::forward<F>(fn), std::move(options));
}

}  // namespace tenon

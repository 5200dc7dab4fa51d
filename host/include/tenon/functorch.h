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

}  // namespace tenon

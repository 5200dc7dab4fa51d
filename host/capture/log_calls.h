// Calls of log functions that wait for the end of a graph.
#pragma once

#include <tenon/compiler.h>

#include <string>
#include <vector>

namespace tenon {

/// Where a graph's input, or an output of the call, comes from.
struct ValueOrigin {
  enum class Kind : uint8_t { leaf, implicit, graph, number, undefined } kind = Kind::undefined;
  uint32_t index = 0;
  friend bool operator==(const ValueOrigin&, const ValueOrigin&) = default;
};

/// A call as part of an entry: run after its code.
struct LogCall {
  std::string name, text;
  std::vector<ValueOrigin> tensors;
  friend bool operator==(const LogCall&, const LogCall&) = default;
  /// Whether it differs in its text at most.
  bool is_like(const LogCall& other) const {
    return name == other.name && tensors == other.tensors;
  }
};

/// Calls that were met while recording, on fakes.
struct PendingLogCalls {
  struct Call {
    std::string name, text;
    std::vector<Tensor> tensors;
  };
  std::vector<Call> calls;

  /// Of a body with graph breaks: everything has run, so the logs run with what came out.
  void run();
  /// Of a body that throws: those are told whose tensors are there, up to the first that has none.
  void run_before_throw();
  /// How many references to the fake are held here.
  int32_t references(const Tensor& fake) const;
};

/// Calls the function of that name. Throws UserError for an unknown one.
void run_log_fn(std::string_view name, std::string_view text, std::span<const Tensor> tensors);

}  // namespace tenon

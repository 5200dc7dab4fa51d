// SPDX-License-Identifier: Apache-2.0
// What programs tell the compiler about functions of theirs: log functions.
//
//     tenon::register_log_fn("app.print", [](std::string_view text, std::span<const tenon::Tensor>
//     ts) { ... });
//     auto f = tenon::compile([](const tenon::Tensor& x) {
//       tenon::Tensor y = x * 2;
//       tenon::call_log_fn("app.print", "y is", {y});
//       return y + 1;
//     });
//
// A log function needs numbers, so calling it inside of a compiled function cuts the graph there.
// Names in dynamo.reorderable_logging_functions do not: their calls are kept in order and run after
// the graph, with the tensors as they are then. Names in dynamo.ignore_logging_functions are left
// out of compiled functions.
//
// Threads: all functions may be called from any thread.
#pragma once

#include <tenon/tensor.h>

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

using LogFunction = std::function<void(std::string_view text, std::span<const Tensor> tensors)>;

/// Registers a log function for this process; one of the same name is replaced.
TENON_API void register_log_fn(std::string name, LogFunction function);
/// Calls a registered log function. Throws UserError for an unknown name.
TENON_API void call_log_fn(std::string_view name, std::string_view text,
                           std::initializer_list<Tensor> tensors = {});

}  // namespace tenon

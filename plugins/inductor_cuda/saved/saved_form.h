// Executables as bytes, so that other processes run what this one compiled.
//
// The bytes hold the machine code of the kernels and all that calls read: launches, buffers, and
// what plans of memory and libraries are made from. Constants of the graph are not among them, nor
// are the libraries' plans, which a library makes anew.
#pragma once

#include "../executable.h"

#include <memory>
#include <string>
#include <string_view>

namespace inductor_cuda {

enum class SavedKind : uint8_t { launches, graph_mode };

/// The executable again, over the constants of the request's graph. Throws `error`: TN_DATA_LOSS
/// for bytes that are damaged or belong to another graph, TN_FAILED_PRECONDITION where they are of
/// another version, GPU or driver, or need a library that is not there.
std::unique_ptr<Executable> load_executable(const tn_compile_request& request,
                                            const Machine& machine, std::string_view bytes);

/// Saved bytes of one kind, around its fields, and back.
std::string with_head(SavedKind kind, std::string_view body);
/// Throws as load_executable() does.
std::string_view body_of(std::string_view bytes, SavedKind& kind);

}  // namespace inductor_cuda

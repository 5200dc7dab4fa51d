// Graph mode: compiled code whose launches are recorded.
#pragma once

#include "executable.h"

#include <recordings/compile.h>

namespace inductor_cuda {

/// Pieces of a graph that are recorded, or its code as it is and why. Threads: calls may run at
/// once.
class GraphModeCode {
 public:
  GraphModeCode(const tn_compile_request& request, const Machine& machine);

  void call(tn_call& c);
  std::string describe(int32_t what) const;

 private:
  std::vector<std::shared_ptr<Executable>> parts_;
  std::unique_ptr<recordings::Recorded> recorded_;  // null: the one part runs directly
  std::string told_;
};

/// Whether the options of a request, and its stage, ask for graph mode.
bool is_in_graph_mode(const tn_compile_request& request);

}  // namespace inductor_cuda

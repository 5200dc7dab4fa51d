// Graph mode: compiled code whose launches are recorded.
#pragma once

#include "../executable.h"

#include <recordings/compile.h>

#include <map>

namespace inductor_cuda {

/// Graph mode as it is saved: what recordings are made from anew.
struct SavedRecordings {
  struct Part {
    std::vector<uint32_t> nodes;  // of the graph
    std::string code;             // an executable, saved
  };
  recordings::Settings settings;
  std::vector<uint32_t> static_inputs;
  std::map<uint32_t, uint8_t> draws_there;  // by node that was asked about
  std::vector<Part> parts;
  std::string told;
};

/// Pieces of a graph that are recorded, or its code as it is and why. Threads: calls may run at
/// once.
class GraphModeCode {
 public:
  GraphModeCode(const tn_compile_request& request, const Machine& machine);
  /// Throws as load_executable() does.
  GraphModeCode(const tn_compile_request& request, const Machine& machine,
                std::string_view saved_bytes);

  void call(tn_call& c);
  std::string describe(int32_t what) const;
  std::string serialize();

 private:
  class Pieces;
  void record(const tn_compile_request& request, Pieces& pieces);

  std::vector<std::shared_ptr<Executable>> parts_;
  SavedRecordings saved_;                           // but for the code of its parts
  std::unique_ptr<recordings::Recorded> recorded_;  // null: the one part runs directly
};

/// Whether the options of a request, and its stage, ask for graph mode.
bool is_in_graph_mode(const tn_compile_request& request);

}  // namespace inductor_cuda

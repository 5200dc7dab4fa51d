// Compiled graphs: recorded pieces, and what runs around them.
#pragma once

#include "pieces.h"
#include "settings.h"

#include <tenon/plugin_program.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace recordings {

/// What a recorded piece launches: as an artifact's call, over the inputs and outputs of the piece.
/// Threads: calls may run at once.
using Launches = std::function<void(tn_call&)>;

/// A piece as it is launched.
struct PieceCode {
  Launches launches;
  Launches before = {};     ///< what each run begins with, recorded or not; it is not recorded
  bool is_planned = false;  ///< nothing is left to the first call, so that one is recorded
};

/// A piece as a function of tenon.cuda/1. Threads: calls may run at once.
class RecordedPiece {
 public:
  /// `name` is that of the graph, for messages.
  RecordedPiece(const tn_compile_request& request, PieceCode code, const Piece& piece,
                const Settings& settings, const std::string& name);
  RecordedPiece(const RecordedPiece&) = delete;
  ~RecordedPiece() { cuda_.function_drop(function_); }

  /// Outputs are new references.
  void run(std::span<tn_tensor*> inputs, std::span<tn_tensor*> outputs, const tn_call& outer);
  /// JSON of the function.
  std::string describe() const;

 private:
  const tn_cuda_api& cuda_ = cuda();  // to look it up takes a third of a call
  tn_cuda_function* function_ = nullptr;
  Launches before_;
};

/// Who makes the code of recorded pieces.
struct Maker {
  /// Lives as long as `steps`. Throws Unrecorded.
  std::function<PieceCode(const Piece& piece, const tenon::plugin::program& steps)> code;
  /// Numbers of the CPU reach the code as they are, as parameters of launches; else they are
  /// copied to the device before.
  bool takes_numbers = false;
};

/// A graph of which at least one piece is recorded. Threads: calls may run at once.
class Recorded {
 public:
  Recorded(const tn_compile_request& request, std::unique_ptr<tenon::plugin::program> steps,
           Pieces pieces, int32_t device, const Settings& settings, const std::string& name,
           const Maker& maker);

  void call(tn_call& c);
  /// What is told of it, and its recordings as JSON.
  std::vector<std::string> told() const, recorded() const;

 private:
  class Course;
  /// Where a value comes from in a graph that is one recorded piece.
  struct Source {
    enum class From : uint8_t { nobody, caller, piece, constant } from = From::nobody;
    uint32_t index = 0;  ///< among inputs, the outputs of the piece, constants_
  };
  std::optional<Source> source_of_value(const tenon::plugin::graph& g, uint32_t id);
  bool find_sources(const tenon::plugin::graph& g);
  void call_one_piece(tn_call& c);

  std::unique_ptr<tenon::plugin::program> steps_;
  Pieces pieces_;
  std::vector<std::unique_ptr<RecordedPiece>> recorded_;  // by piece; null: it runs directly
  std::vector<bool> is_number_;          // by value: on the CPU, without dimensions
  std::vector<uint32_t> number_inputs_;  // those of the caller that pieces read
  int32_t device_;
  bool is_one_piece_ = false;  // and reads no numbers: what follows says how it is called
  std::vector<Source> input_sources_, output_sources_;
  std::vector<tenon::plugin::tensor> constants_;
};

/// "not recorded: aten.nonzero.default gives ... (data_dependent, nonzero_1, net.cpp:12)".
std::string told_of(const Skip& skip);

}  // namespace recordings

// A .pt2 program as a Graph with its weights: what compiling and running it needs.
//
//   auto program = std::make_shared<Pt2Program>(read_pt2("vit.pt2"));
//   ImportedModel model = import_pt2(*program);
//   BoundCall call = bind_call(model, leaves);            // formats/pt2/pt2_call.h
//   Interpreter(model.graph).run(call.inputs, call.symbols, outputs);
//
// The nodes are translated one by one, nothing is traced: names become values, arguments are bound
// by name with the schema's defaults, regions without gradients are written in place.
//
// Errors are UserError: unsupported with every op that is missing and its count, bad_file where the
// arguments of a node do not fit its schema.
#pragma once

#include "formats/pt2/pt2.h"
#include "formats/pt2/pt2_symbols.h"
#include "graph/graph.h"

#include <memory>
#include <string>
#include <vector>

namespace tenon::formats {

enum class ModelInputKind : uint8_t { parameter, buffer, constant, user, symbol };

/// One input of the graph.
struct ModelInput {
  ModelInputKind kind = ModelInputKind::user;
  std::string name;                ///< of the first graph input of the program that it stands for
  std::vector<std::string> names;  ///< FQNs of a weight; several for tied ones with the same view
  Tensor tensor;                   ///< of weights
  uint32_t leaf = 0;               ///< of user inputs
};

enum class LeafKind : uint8_t { tensor, number, constant };

/// One leaf of what the caller passes, in flattened order.
struct ModelLeaf {
  LeafKind kind = LeafKind::tensor;
  std::string name;
  uint32_t program_input = 0;  ///< index into Pt2Program::inputs
  Dtype dtype = Dtype::f32;    ///< tensors
  std::vector<Pt2Sym> sizes;   ///< tensors
  Pt2Sym number;               ///< numbers
  Pt2Argument constant;        ///< constants: what the caller must pass, or nothing
};

enum class ModelOutputKind : uint8_t {
  result,      ///< output `index` of the graph; a number comes as a 0-dim tensor
  constant,    ///< `constant`
  write_back,  ///< output `index` is copied into input `input` of the graph after the run
  gradient,    ///< output `index` is the gradient of `name`
};

struct ModelOutput {
  ModelOutputKind kind = ModelOutputKind::result;
  uint32_t index = 0;
  uint32_t input = 0;
  std::string name;
  Pt2Argument constant;
};

struct ImportedModel {
  std::string file, name;
  std::shared_ptr<Graph> graph;
  std::vector<ModelInput> inputs;             ///< parallel to the graph's
  std::vector<ModelLeaf> leaves;              ///< what a caller passes
  std::vector<ModelOutput> outputs;           ///< user outputs in flattened order, and effects
  std::shared_ptr<ShapeEnv> program_symbols;  ///< what the expressions below and of leaves are over
  std::vector<Pt2SymbolSource> symbols;       ///< parallel to the first of graph->symbols
  std::vector<Pt2Range> ranges;
  std::vector<Pt2Guard> guards;
  std::vector<std::string> argument_names;
  std::optional<Pt2Tree> in_tree;
};

struct ImportOptions {
  Pt2SymbolValues hints;        ///< instead of those of the archive
  bool random_weights = false;  ///< seeded random values for all weights
  bool with_weights = true;     ///< false: the graph only, ModelInput::tensor stays undefined
  bool own_weights = false;     ///< all are copies: the caller moves them, as training does
  Device device;                ///< of all tensors, whatever devices the archive names
};

/// Weights are views of the mapped file, except those that the program may write: these, and every
/// name that shares their storage, are copies of this call's own. Writing to a view writes to what
/// every later import of the program sees.
ImportedModel import_pt2(const Pt2Program& program, const ImportOptions& options = {});

/// "2 ops are not supported: aten.foo.default (3 times), aten.bar.out (once)"; empty when all are.
std::string unsupported_ops(const Pt2Program& program);

}  // namespace tenon::formats

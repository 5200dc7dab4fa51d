// The steps of reading a .pt2 archive, one file each; pt2_archive.cpp calls them in order.
#pragma once

#include "formats/check.h"
#include "formats/json.h"
#include "formats/pt2/pt2.h"
#include "formats/zip.h"

#include <string>
#include <string_view>

namespace tenon::formats::pt2 {

/// A name of a value, weight or argument: UTF-8 (the JSON reader's check) without NUL.
const std::string& read_name(const JsonView& view);

/// The records of one program, by their names below the archive's folder: "models/model.json",
/// "data/weights/weight_0".
class Pt2Records {
 public:
  virtual ~Pt2Records() = default;
  virtual const std::string& subject() const = 0;
  virtual std::optional<Bytes> find(const std::string& name) const = 0;
  /// Throws UserError bad_file for a record that is not there.
  Bytes read(const std::string& name) const;
};

// pt2_argument.cpp
Dtype read_dtype(const JsonView& number);
Pt2Device read_device(const JsonView& view);
Pt2Sym read_sym(const JsonView& view, Pt2Expressions& expressions);
Pt2TensorMeta read_tensor_meta(const JsonView& view, Pt2Expressions& expressions);
Pt2Argument read_argument(const JsonView& view, Pt2Expressions& expressions);

// pt2_graph.cpp
Pt2Graph read_graph(const JsonView& view, Pt2Expressions& expressions);
/// What the node calls, and of which kind that is.
void set_target(Pt2Node& node, std::string target);

// pt2_effects.cpp
/// Calls of ops through a token become calls of the ops.
void unwrap_effects(Pt2Graph& graph, const std::string& subject);
/// Takes a token that `spec` names out of the graph's inputs or outputs.
void drop_token(std::vector<Pt2Argument>& arguments, const JsonView& spec, const std::string& name);

// pt2_signature.cpp
/// Into the program, whose graph has been read; tokens are dropped there.
void read_signature(const JsonView& signature, Pt2Expressions& expressions, Pt2Program& program);
void read_calling_convention(const JsonView& graph_module, Pt2Program& program);

// pt2_guards.cpp
/// After the calling convention, whose arguments the guards name.
void read_guards(const JsonView& top, Pt2Expressions& expressions, Pt2Program& program);

// pt2_weights.cpp
/// The record that lists the weights of a folder, "weights" or "constants".
std::string weights_config(std::string_view folder, const std::string& program);
/// Reads the records that it names.
std::vector<Pt2Weight> read_weights(const Pt2Records& records, std::string_view folder,
                                    const std::string& program, const Pt2Options& options);

// pt2_vmap.cpp
/// Regions of torch.vmap become calls of map, in a graph that verify_graph() has passed.
void map_regions(Pt2Graph& graph, int depth = 0);

// pt2_verify.cpp
/// Names, descriptions and arities of the graph and everything nested in it.
void verify_graph(const Pt2Graph& graph, const std::string& subject);
/// Signature against graph and weights.
void verify_signature(const Pt2Program& program);

}  // namespace tenon::formats::pt2

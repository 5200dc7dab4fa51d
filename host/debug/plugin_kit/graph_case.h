// Golden graphs with sizes, layout and numbers chosen: what a backend compiles and runs.
#pragma once

#include "debug/plugin_kit/embedded.h"
#include "graph/graph.h"

#include <tenon/tensor.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon::kit {

/// How the inputs of a graph are made.
enum class InputStyle {
  contiguous,
  transposed,   ///< the last two dimensions are stored the other way round
  sliced,       ///< a part of larger memory: an offset, and gaps between elements
  zero_size,    ///< each symbolic size is 0
  one_element,  ///< each symbolic size is 1
  not_finite,   ///< some elements are NaN, infinite or -0
  some_nan,     ///< a few elements are NaN, none is infinite
  denormal,     ///< all elements are denormal numbers of their dtype
};
inline constexpr InputStyle all_input_styles[] = {
    InputStyle::contiguous,  InputStyle::transposed, InputStyle::sliced,   InputStyle::zero_size,
    InputStyle::one_element, InputStyle::not_finite, InputStyle::some_nan, InputStyle::denormal};
std::string_view name_of(InputStyle style);

struct GoldenGraph {
  std::string name;
  std::shared_ptr<Graph> graph;
  bool only_finite = false;  ///< "# only: finite": what becomes of NaN is nowhere said
  bool no_infinity = false;  ///< "# only: no infinity": NaN is kept, infinities are added up
  bool is_random = false;    ///< some op draws random numbers
  bool is_unbacked = false;  ///< some size is known at run time only
  bool writes = false;       ///< some op writes an input
};
GoldenGraph golden_graph(const EmbeddedFile& file);
/// Throws InternalError when there is none of that name (without ".tng").
GoldenGraph golden_graph(std::string_view name);

/// A graph and inputs that fit it. The inputs lie between guard zones.
struct GraphCase {
  std::shared_ptr<Graph> graph;
  std::vector<Tensor> inputs;    ///< undefined for inputs that are numbers
  std::vector<int64_t> symbols;  ///< values of graph->symbols

  std::vector<detail::TensorHead*> heads() const;
  /// Elements, between zones as the first ones are.
  std::vector<Tensor> copy_of_inputs() const;
};

/// The graph for fixed sizes, recorded anew for the layout of the style; nothing where the style
/// does not suit it. Throws UserError for a graph that its own ops refuse.
std::optional<GraphCase> make_static_case(const GoldenGraph& golden, InputStyle style,
                                          uint64_t seed);
/// The same graph with its floating inputs marked: their gradients are wanted.
GraphCase with_gradients_wanted(const GraphCase& graph_case);
/// The case with other numbers in inputs laid out alike.
GraphCase with_other_numbers(const GraphCase& graph_case, uint64_t seed);
/// The graph for these values of its symbols, contiguous.
GraphCase make_sized_case(const GoldenGraph& golden, std::span<const int64_t> symbols,
                          uint64_t seed);
/// The graph as it is, with inputs for the given values of the symbols that inputs bind.
GraphCase make_symbolic_case(const GoldenGraph& golden, std::span<const int64_t> symbols,
                             uint64_t seed);
/// `size` for each integer symbol, the example values of the others.
std::vector<int64_t> with_sizes(const Graph& graph, int64_t size);
/// The example values of the symbols; those bound at run time are 0.
std::vector<int64_t> symbol_hints(const Graph& graph);
/// Whether all ranges and conditions of the graph admit these values.
bool admits(const Graph& graph, std::span<const int64_t> symbols);

/// What the host's interpreter makes of it, on copies of the inputs; `inputs_after` gets these.
std::vector<Tensor> run_reference(const GraphCase& graph_case,
                                  std::vector<Tensor>* inputs_after = nullptr);

/// Empty where `found` is what is expected within the tolerance of its dtype, or at most twice as
/// far from a run in double precision as the interpreter's results are.
std::string difference(const GraphCase& graph_case, std::span<const Tensor> found,
                       std::span<const Tensor> expected);
/// Empty where dtype, sizes and strides are those that the graph says.
std::string meta_difference(const GraphCase& graph_case, std::span<const Tensor> found);

/// Whether two tensors hold the same bits.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace tenon::kit

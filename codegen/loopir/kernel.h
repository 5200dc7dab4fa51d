// Loops that run as one: what fusion makes and code generation takes.
//
// A kernel is a nest. For every point of `outer` (a row; rows are independent and shared out among
// threads) its stages run in order; a stage runs its statements for every point of `inner`, or once
// where that is empty. What a statement computes is used by later statements without memory:
// folded values stand as value_folded, others were put in the place of their loads. So softmax is
// one kernel of four stages, and a chain of pointwise ops is one statement of one stage.
#pragma once

#include "program.h"

namespace loopir {

struct Statement {
  Fold fold = Fold::none;
  Id value = none;
  Id folded = none;                // number of the fold, for value_folded
  Id buffer = none, index = none;  // where the result is stored; none: nowhere
  Id position = none;              // of folds that give a position
  int32_t dtype = TN_F32;          // of the result
  bool is_scan = false;
  bool is_scatter = false;  // points of `inner` run in order
  Store store = Store::set;
};

struct Stage {
  Ids inner;
  std::vector<Statement> statements;
};

struct Kernel {
  Ids outer;
  std::vector<Stage> stages;
  std::vector<Id> scratch;  // buffers of place scratch
  std::string name;
  uint32_t n_folds = 0, n_loops = 0;
  std::set<uint32_t> nodes;  // of the graph, of which it computes a part
};

using Item = std::variant<Kernel, Product, Convolution, ConvolutionGradient, Attention,
                          AttentionGradient, Recurrence, Extern>;

struct FusionOptions {
  int64_t threads = 1;
  uint32_t most_loops = 64;              // in one kernel
  uint32_t most_independent_loops = 64;  // where some of them only read the same
  int64_t scratch_bytes = 256 << 10;
  bool repeats_long_rows = false;  // rows too long for scratch are computed again, not stored
  bool joins_points = false;       // loops over one element become one kernel, whatever they read
};

/// What became of one pair of loops, for describe().
struct FusionNote {
  std::string producer, consumer, verdict;
};

struct Schedule {
  std::vector<Item> items;
  std::vector<FusionNote> notes;
};

/// The program's steps as kernels and calls, in an order that dependencies allow. The steps are
/// used up.
Schedule fuse(Program& program, const FusionOptions& options);

Access access_of(Program& program, const Item& item);
/// Whether the numbers of a call, sizes or real ones, are a part of what the item computes.
bool reads_numbers(Program& program, const Item& item);
/// Before fusion, and afterwards.
std::string text_of(const Program& program);
std::string text_of(Program& program, const Schedule& schedule);

struct AbsorbRules {
  /// Whether a product or convolution with its epilogue is fast as it stands.
  std::function<bool(const Item&)> can;
  /// Whether a convolution is as good when it writes its result in another layout.
  std::function<bool(const Convolution&)> can_move;
  /// bf16 and f16 are rounded between functions.
  bool rounds_narrow = false;
  /// There are routines with this function.
  bool gelu_tanh = false;
};
/// Makes kernels that only apply functions to the result of one product or convolution, round it or
/// bring it into another layout, a part of that.
void absorb_epilogues(Program& program, Schedule& schedule, const AbsorbRules& rules);

// ---- before code is made

/// How a kernel becomes loops over vectors.
struct Nest {
  Kernel kernel;       // variables put together and ordered, slowest first
  Id lanes = none;     // the outer variable that runs over lanes; none: inner ones do
  Ids lanes_of_stage;  // by stage: the inner variable that runs over lanes, or none
  Id rows = none;      // how many points the other outer variables have
};
/// Puts neighbouring variables together where every index allows it, and chooses what is
/// vectorised: the variable with unit stride in most accesses.
Nest make_nest(Program& program, Kernel kernel, int64_t vector_lanes);
/// Makes units of tiles where loads lie across the lanes, so that lines of a cache are used at once.
void cut_into_tiles(Program& program, Nest& nest, int64_t vector_lanes);

// ---- parts of fusion

/// Loops over common variables.
struct Group {
  std::vector<Loop> loops;
};

/// New variables in which the index `a` of group A and the index `b` of group B are the same: both
/// groups rewritten, or nothing where the two walk their memory differently.
struct Unified {
  Group a, b;
};
std::optional<Unified> unify(Expressions& x, const Group& a, Id index_a, const Group& b,
                             Id index_b);

/// The variables that all loops have as outer ones.
Ids common_outer(const Group& group);
Kernel make_kernel(Program& program, Group group, const std::vector<bool>& needed_outside,
                   const FusionOptions& options);

}  // namespace loopir

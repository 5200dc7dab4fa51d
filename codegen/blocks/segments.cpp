#include "segments.h"

#include "code.h"
#include "tiles.h"

#include <algorithm>

namespace blocks {

using loopir::Expressions;
using loopir::Id;
using loopir::Ids;
using loopir::none;
using loopir::Stage;
using loopir::Statement;

namespace {

class Finder {
 public:
  Finder(loopir::Program& program, const loopir::Nest& nest, int64_t width)
      : program_(program), x_(program.expressions), nest_(nest), width_(width) {}

  std::optional<Segments> run() {
    if (nest_.lanes != none) return rows_of_lanes();
    if (nest_.kernel.outer.empty()) return std::nullopt;
    rows_ = nest_.kernel.outer.back();
    if (x_.hint(x_.extent_of(rows_)) < 2) return std::nullopt;
    Segments out{rows_, x_.constant(1), true, true};
    bool has_elements = false;
    for (size_t s = 0; s < nest_.kernel.stages.size(); ++s) {
      Id elements = nest_.lanes_of_stage[s];
      if (!fits(nest_.kernel.stages[s], elements)) return std::nullopt;
      if (elements == none) continue;
      has_elements = true;
      Id extent = x_.extent_of(elements);
      if (out.longest != extent) out.longest = x_.maximum(out.longest, extent);
      auto n = x_.number_of(extent);
      out.are_certain = out.are_certain && n && *n <= short_row(width_);
    }
    bool is_short = has_elements && x_.hint(out.longest) <= short_row(width_);
    return is_short && fills_blocks(out) ? std::optional(out) : std::nullopt;
  }

 private:
  // Where the sizes are known a tile does it.
  std::optional<Segments> rows_of_lanes() {
    const Ids& outer = nest_.kernel.outer;
    Id extent = x_.extent_of(nest_.lanes);
    if (outer.size() < 2 || outer.back() != nest_.lanes || !is_fixed(extent) ||
        x_.number_of(extent))
      return std::nullopt;
    rows_ = outer[outer.size() - 2];
    bool is_short = x_.hint(extent) <= short_row(width_) && x_.hint(x_.extent_of(rows_)) >= 2;
    for (const Stage& stage : nest_.kernel.stages)
      for (Id v : stage.inner) is_short = is_short && !x_.depends_on(x_.extent_of(v), rows_);
    return is_short ? std::optional(Segments{rows_, extent, false, false}) : std::nullopt;
  }
  bool is_fixed(Id extent) {
    return x_.variables_of_index(extent).empty() && !x_.reads_data(extent);
  }
  bool fits(const Stage& stage, Id elements) {
    if (!stage.inner.empty() && elements == none) return false;
    for (Id v : stage.inner)
      if (!is_fixed(x_.extent_of(v))) return false;
    return std::ranges::all_of(stage.statements,
                               [&](const Statement& s) { return fits(stage, s, elements); });
  }
  bool fits(const Stage& stage, const Statement& s, Id elements) {
    if (s.is_scan || s.is_scatter || s.store != loopir::Store::set) return false;
    bool all_fit = s.buffer == none || fits_store(stage, s, elements);
    bool is_long = elements != none && x_.hint(x_.extent_of(elements)) >= worth_a_block;
    loopir::for_each_load(x_, s.value, [&](const loopir::ValueNode& load) {
      bool is_row = is_scratch(load.a);
      all_fit = all_fit && (is_row ? is_row_of(stage, load.b, elements)
                                   : !is_long || is_line(load.b, elements));
    });
    return all_fit;
  }
  // Whether a block has more elements than one of lanes over several variables of a row.
  bool fills_blocks(const Segments& s) {
    int64_t longest = std::max<int64_t>(x_.hint(s.longest), 1);
    int64_t count = std::min(x_.hint(x_.extent_of(rows_)), width_ / longest);
    for (size_t k = 0; k < nest_.kernel.stages.size(); ++k) {
      Id elements = nest_.lanes_of_stage[k];
      if (elements == none) continue;
      int64_t others = 1;
      for (Id v : tile_of_stage(x_, nest_.kernel.stages[k], elements, width_))
        if (v != elements) others *= x_.hint(x_.extent_of(v));
      if (others > count) return false;
    }
    return true;
  }
  // Rows of a block must not meet, and a row in scratch memory is a segment.
  bool fits_store(const Stage& stage, const Statement& s, Id elements) {
    if (is_scratch(s.buffer))
      return s.fold == loopir::Fold::none && is_row_of(stage, s.index, elements);
    auto step = x_.coefficient(s.index, rows_);
    return step && !x_.is(*step, 0);
  }
  bool is_row_of(const Stage& stage, Id index, Id elements) {
    return stage.inner.size() == 1 && index == elements;
  }
  bool is_line(Id index, Id elements) {
    return !x_.depends_on(index, elements) || !x_.depends_on(index, rows_) ||
           (x_.coefficient(index, elements) && x_.coefficient(index, rows_));
  }
  bool is_scratch(Id buffer) const {
    return program_.buffers[buffer].place == loopir::Buffer::Place::scratch;
  }

  // From here on a row looked up by itself costs less than its elements one by one.
  static constexpr int64_t worth_a_block = 32;
  loopir::Program& program_;
  Expressions& x_;
  const loopir::Nest& nest_;
  const int64_t width_;
  Id rows_ = none;
};

}  // namespace

std::optional<Segments> segments_of(loopir::Program& program, const loopir::Nest& nest,
                                    int64_t width) {
  return Finder(program, nest, width).run();
}

}  // namespace blocks

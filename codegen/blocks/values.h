// Values and indices of a kernel as steps.
#pragma once

#include "scopes.h"
#include "uses.h"

#include <array>

namespace blocks {

/// A register, and whether it is a block.
struct Operand {
  Id value;
  bool is_block;
  bool is_of_rows = false;  // one element a row, where lanes are segments
};

class Values {
 public:
  Values(loopir::Program& program, Code& code, Scopes& scopes,
         const std::map<Id, uint32_t>& buffers, const std::vector<int>& writers, const Uses& uses)
      : program_(program),
        x_(program.expressions),
        code_(code),
        scopes_(scopes),
        buffers_(buffers),
        writers_(writers),
        uses_(uses) {}

  Operand value(Id v);
  /// As a block where the loop over lanes is open.
  Operand lane_value(Id v);
  Id block_of(Operand single, size_t scope, Type type);
  /// The number register of an index, of the block's first lane.
  Id number(Id index);
  /// A block of i64.
  Id places(Id index);

  struct Access {
    Where where;
    Id first, places = none;  // number; block
    uint32_t tile = 0;
  };
  /// How a block reads or writes at this index.
  Access access(Id buffer, Id index, size_t scope);
  uint32_t position_of(Id buffer) const { return buffers_.at(buffer); }
  bool is_lane_scratch(Id buffer) const {
    return scopes_.lanes.are_rows && scopes_.is_scratch(buffer);
  }

  std::map<Id, Operand> folded;  // results of folds, by their number
  /// The stage that is made, where lanes are elements of its own; else null.
  const loopir::Stage* stage = nullptr;
  /// The lanes around segments: one element a row.
  OpenLanes rows;

 private:
  /// Of primitives that take one element a row as it is.
  Operand operand(Id v);
  Operand make_value(Id v);
  Operand make_primitive(Id v, const loopir::ValueNode& n);
  std::optional<Operand> make_joined(Id v, const loopir::ValueNode& n);
  /// The step with its operands; those that are not `none`.
  std::optional<Operand> join(Id v, Step s, std::array<Id, 4> operands);
  bool is_written(Id buffer) const;
  Id without_one(Id v);
  bool has_one_use(Id value) const {
    auto at = uses_.find(value);
    return at != uses_.end() && at->second == 1;
  }
  Operand make_load(Id v, const loopir::ValueNode& n);
  Operand make_one_load(const loopir::ValueNode& n);
  Operand make_check(const loopir::ValueNode& n);
  Operand make_divisor(const loopir::ValueNode& n);
  void add_mask(Step& s, Id mask);
  Id make_number(Id index);
  Id combine(size_t scope, Do what, Id a, Id b);
  Id with_constant(size_t scope, Do what, Id a, int64_t constant);
  Id make_places(Id index);
  Tile tile_of(const loopir::Ids& steps);
  Id apply_places(size_t scope, uint16_t code, Id left, Id right);
  Id apply_to_places(size_t scope, uint16_t code, Id a, Id b, bool is_single);

  loopir::Program& program_;
  loopir::Expressions& x_;
  Code& code_;
  Scopes& scopes_;
  const std::map<Id, uint32_t>& buffers_;
  const std::vector<int>& writers_;  // in this kernel, by buffer
  const Uses& uses_;
};

}  // namespace blocks

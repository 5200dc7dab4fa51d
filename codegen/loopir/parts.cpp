// Parts of equal length for CPUs; parts by what a GPU has room for.
//
// Problem: the sum of 64M elements has one row, and a GPU 132 multiprocessors. Method: reduced
// variables that are one line in every index become one, the longest is cut into P parts of L, a
// multiple of 8 so that accesses stay wide, and part p has min(L, what is left) points. L is an
// index, so that sizes may be symbols. P depends on the sizes seen and on the device; results do not
// change from call to call.
#include "parts.h"

#include <algorithm>

namespace loopir {

std::optional<Parts> equal_parts(Lowering& to, const Ids& reduced, const Ids& sizes, Id value) {
  constexpr int64_t few_rows = 16, much = 32768, most_parts = 64, least_parts = 8;
  Expressions& x = to.x;
  int64_t rows = x.hint(x.product_of(sizes)), longest = 0, elements = 1;
  Id cut = none;
  for (Id v : reduced) {
    if (x.index_at(v).kind != IndexKind::variable) continue;
    int64_t n = x.number_of(x.extent_of(v)).value_or(0);
    elements *= n;
    if (n > longest) longest = n, cut = v;
  }
  if (rows >= few_rows || elements < much) return std::nullopt;
  int64_t parts = most_parts;
  while (parts >= least_parts && longest % parts) --parts;
  if (parts < least_parts) return std::nullopt;
  Id part = x.variable(x.constant(parts)), within = x.variable(x.constant(longest / parts));
  Id at = x.add(x.multiply(part, x.constant(longest / parts)), within);
  Ids inner = reduced;
  std::replace(inner.begin(), inner.end(), cut, within);
  return Parts{part, inner, x.substitute(value, {{cut, at}})};
}

namespace {

/// Every index in a value: of loads and those that are numbers.
class IndexWalk {
 public:
  explicit IndexWalk(Expressions& x) : x_(x) {}
  Ids loads, all;

  void value(Id v) {
    if (v == none || !values_.insert(v).second) return;
    const ValueNode n = x_.value_at(v);
    Operands read = operands_of(n);
    for (Id o : read.values) value(o);
    if (read.index == none) return;
    if (n.code == value_load) loads.push_back(read.index);
    all.push_back(read.index);
    index(read.index);
  }

 private:
  void index(Id i) {
    if (!x_.reads_data(i)) return;
    const IndexNode n = x_.index_at(i);
    if (n.kind == IndexKind::value) value(static_cast<Id>(n.number));
    for (Id o : n.operands) index(o);
  }

  Expressions& x_;
  std::set<Id> values_;
};

class BlockParts {
 public:
  BlockParts(Lowering& to, const Ids& reduced, const Ids& sizes, Id value)
      : options_(to.options), x_(to.x), rows_(x_.hint(x_.product_of(sizes))), value_(value) {
    for (Id v : reduced)
      if (x_.index_at(v).kind == IndexKind::variable) reduced_.push_back(v);
  }

  std::optional<Parts> run() {
    // A block has all its threads for a row, but eight of them for a column, which then takes a
    // quarter of a microsecond for eight elements.
    constexpr int64_t much_of_row = 32768, much_of_column = 512;
    int64_t elements = 1;
    for (Id v : reduced_) elements *= hint_of(v);
    if (reduced_.empty() || has_lengths_by_data()) return std::nullopt;
    if (elements < (is_along_rows() ? much_of_row : much_of_column)) return std::nullopt;
    while (merge_two()) {
    }
    Id cut = *std::max_element(reduced_.begin(), reduced_.end(),
                               [&](Id p, Id q) { return hint_of(p) < hint_of(q); });
    int64_t parts = wanted_parts(hint_of(cut));
    return parts < 2 ? std::nullopt : std::optional(cut_into(cut, parts));
  }

 private:
  int64_t hint_of(Id v) { return x_.hint(x_.extent_of(v)); }
  bool has_lengths_by_data() {
    return std::any_of(reduced_.begin(), reduced_.end(), [&](Id v) {
      Id extent = x_.extent_of(v);
      return x_.reads_data(extent) || !x_.variables_of_index(extent).empty();
    });
  }

  bool are_one_line(Id i, Id j, const Ids& indices) {
    return std::all_of(indices.begin(), indices.end(), [&](Id index) {
      if (!x_.depends_on(index, i) && !x_.depends_on(index, j)) return true;
      auto of_i = x_.coefficient(index, i), of_j = x_.coefficient(index, j);
      return of_i && of_j && *of_i == x_.multiply(*of_j, x_.extent_of(j));
    });
  }
  bool merge_two() {
    IndexWalk walk(x_);
    walk.value(value_);
    for (Id i : reduced_)
      for (Id j : reduced_) {
        if (i == j || !are_one_line(i, j, walk.all)) continue;
        Id both = x_.variable(x_.multiply(x_.extent_of(i), x_.extent_of(j)));
        value_ = x_.substitute(value_, {{i, x_.constant(0)}, {j, both}});
        std::erase(reduced_, i);
        std::replace(reduced_.begin(), reduced_.end(), j, both);
        return true;
      }
    return false;
  }

  // A block has a row where elements of a row lie beside each other, else some columns.
  bool is_along_rows() {
    IndexWalk walk(x_);
    walk.value(value_);
    return std::any_of(walk.loads.begin(), walk.loads.end(), [&](Id index) {
      return std::any_of(reduced_.begin(), reduced_.end(), [&](Id v) {
        auto step = x_.coefficient(index, v);
        return step && x_.is(*step, 1);
      });
    });
  }
  int64_t wanted_parts(int64_t length) {
    // Of columns a thread has few elements on their way, so that there have to be more threads.
    constexpr int64_t columns_of_block = 32, short_row = 512, short_column = 32;
    // What they leave is a column of a few elements, which a thread reads at once.
    constexpr int64_t more_of_columns = 3, most_of_columns = 16;
    bool is_row = is_along_rows();
    int64_t blocks = std::max<int64_t>(is_row ? rows_ : rows_ / columns_of_block, 1);
    int64_t wanted = options_.fold_blocks * (is_row ? 1 : more_of_columns);
    int64_t parts = (wanted + blocks - 1) / blocks;
    int64_t few = (options_.fold_blocks + blocks - 1) / blocks;
    if (!is_row) parts = std::min(parts, std::max(most_of_columns, few));
    return std::min(parts, length / (is_row ? short_row : short_column));
  }

  Parts cut_into(Id cut, int64_t parts) {
    constexpr int64_t step = 8;
    Id whole = x_.extent_of(cut), steps = x_.constant(step * parts);
    Id rounded = x_.add(whole, x_.constant(step * parts - 1));
    Id length = x_.multiply(x_.floordiv(rounded, steps), x_.constant(step));
    Id part = x_.variable(x_.constant(parts));
    Id begin = x_.multiply(part, length);
    Id left = x_.maximum(x_.subtract(whole, begin), x_.constant(0));
    auto known = x_.number_of(whole);
    Id extent = known && *known % (step * parts) == 0 ? length : x_.minimum(length, left);
    Id within = x_.variable(extent);
    std::replace(reduced_.begin(), reduced_.end(), cut, within);
    return {part, reduced_, x_.substitute(value_, {{cut, x_.add(begin, within)}})};
  }

  const LoweringOptions& options_;
  Expressions& x_;
  int64_t rows_;
  Ids reduced_;
  Id value_;
};

}  // namespace

std::optional<Parts> parts_for_blocks(Lowering& to, const Ids& reduced, const Ids& sizes,
                                      Id value) {
  return BlockParts(to, reduced, sizes, value).run();
}

}  // namespace loopir

// Bags of rows: sums and means of rows of a table, folds whose length is data, and their gradients.
#include "loopir/lower/scatter.h"

namespace loopir {

using tenon::plugin::node;

namespace {

enum Mode : int64_t { mode_sum = 0, mode_mean = 1 };

/// Where the indices of each bag begin and end.
struct Bags {
  Tensor offsets;
  Id n_indices, n_bags;
  bool has_last;  // the last offset is an end

  Id start(Lowering& to, Id bag) const { return offset(to, bag, none); }
  Id end(Lowering& to, Id bag) const {
    Expressions& x = to.x;
    Id next = x.add(bag, x.constant(1));
    if (has_last) return offset(to, next, none);
    Id is_inside = is_bag(to, next);
    return x.apply(TN_F_SELECT, TN_I64, is_inside, offset(to, next, is_inside),
                   x.index_value(n_indices));
  }
  /// How many there are; an error where the offsets decrease, do not begin at 0, lie outside or
  /// leave indices out, also if no element depends on its place.
  Id count(Lowering& to, Id bag) const {
    Expressions& x = to.x;
    Id first = start(to, bag), last = end(to, bag);
    Id too_many = x.add(n_indices, x.constant(1)), zero = x.number(int64_t{0}, TN_I64);
    Id begins =
        x.apply(TN_F_SELECT, TN_BOOL, x.apply(TN_F_EQ, TN_BOOL, x.index_value(bag), zero),
                x.apply(TN_F_EQ, TN_BOOL, first, zero), x.apply(TN_F_GE, TN_BOOL, first, zero));
    Id is_within = x.apply(TN_F_BAND, TN_BOOL, begins,
                           x.apply(TN_F_LE, TN_BOOL, last, x.index_value(n_indices)));
    is_within = x.apply(TN_F_BAND, TN_BOOL, is_within, x.apply(TN_F_GE, TN_BOOL, last, first));
    if (has_last) {
      Id is_end = x.apply(TN_F_EQ, TN_BOOL, last, x.index_value(n_indices));
      Id is_followed = is_bag(to, x.add(bag, x.constant(1)));
      is_within =
          x.apply(TN_F_BAND, TN_BOOL, is_within, x.apply(TN_F_BOR, TN_BOOL, is_followed, is_end));
    }
    Id n = x.apply(TN_F_SELECT, TN_I64, is_within, x.apply(TN_F_SUB, TN_I64, last, first),
                   x.index_value(too_many));
    return x.of_value(x.value({value_checked, TN_I64, n, too_many, none}));
  }

 private:
  Id is_bag(Lowering& to, Id bag) const {
    return to.x.apply(TN_F_LT, TN_BOOL, to.x.index_value(bag), to.x.index_value(n_bags));
  }
  Id offset(Lowering& to, Id bag, Id mask) const {
    Id value = to.at(offsets, Ids{bag});
    if (mask != none) value = to.x.masked(value, mask);
    return to.x.cast(value, TN_I64);
  }
};

/// The bag of each index: how many bags begin up to it, less one. Beginnings are counted where they
/// are and added up.
Tensor bags_of_indices(Lowering& to, uint32_t result, const Tensor& offsets, Id n_bags,
                       Id n_indices) {
  Expressions& x = to.x;
  Target marks(to, result, TN_I64, {n_indices});
  marks.fill_with_zeros();
  Id bag = x.variable(n_bags), zero = x.number(int64_t{0}, TN_I64);
  Id start = x.cast(to.at(offsets, Ids{bag}), TN_I64);
  Id is_inside = x.apply(TN_F_NE, TN_BOOL, start, x.index_value(n_indices));
  Id place = checked(to, x.apply(TN_F_SELECT, TN_I64, is_inside, start, zero), n_indices);
  marks.write(Store::add, {}, {bag}, is_inside, {place});
  Tensor begun = to.scanned(Fold::sum, marks.written(), 0, marks.name.c_str());
  return to.make(TN_I64, {n_indices}, [&](std::span<const Id> i) {
    return x.apply(TN_F_SUB, TN_I64, to.at(begun, i), x.number(int64_t{1}, TN_I64));
  });
}

bool is_index_list(Lowering& to, const tn_arg& a) {
  auto v = to.info(a.u.value);
  return is_integer(v.dtype) && v.ndim == 1;
}
/// More than one, so that what is read depends on the position, which is checked then.
bool has_several(Lowering& to, Id size) { return to.x.range(size).lower > 1; }

bool is_wanted(const Lowering& to, uint32_t value) {
  return to.reads[value] || to.is_output[value];
}

void give_counts(Lowering& to, uint32_t value, const Tensor& counts, bool are_kept) {
  auto v = to.info(value);
  to.set(value, to.make(v.dtype, to.arguments.indices_of(v.dims()), [&](std::span<const Id> i) {
    return are_kept ? to.x.cast(to.at(counts, i), v.dtype) : to.x.number(int64_t{0}, v.dtype);
  }));
}

void give_offset2bag(Lowering& to, uint32_t value, const Tensor& offsets, Id n_bags) {
  auto v = to.info(value);
  Ids sizes = to.arguments.indices_of(v.dims());
  if (!is_wanted(to, value) || to.x.is(sizes[0], 0)) {
    to.set(value, to.make(v.dtype, sizes,
                          [&](std::span<const Id>) { return to.x.number(int64_t{0}, v.dtype); }));
    return;
  }
  Tensor bags = bags_of_indices(to, value, offsets, n_bags, sizes[0]);
  to.set(value, to.make(v.dtype, sizes,
                        [&](std::span<const Id> i) { return to.x.cast(to.at(bags, i), v.dtype); }));
}

bool embedding_bag(Lowering& to, const node& n) {
  const Tensor table = to.tensor_arg(n.args[0]);
  int64_t mode = int_arg(n.args[4]), padding = int_arg(n.args[8]);
  bool has_scales = to.is_tensor(n.args[6]);
  Ids sizes = to.sizes_of(n.first_result);
  if (mode > mode_mean || !is_floating(table.dtype) || !is_index_list(to, n.args[1]) ||
      !is_index_list(to, n.args[2]) || !has_several(to, table.sizes[0]) ||
      !has_several(to, sizes[0]) || !has_several(to, to.tensor_arg(n.args[1]).sizes[0]))
    return false;
  Expressions& x = to.x;
  int32_t dtype = compute_type(table.dtype);
  Tensor indices = to.realised(index_tensor(to, n.args[1]), "indices");
  Tensor offsets = to.realised(index_tensor(to, n.args[2]), "offsets");
  Bags bags{offsets, indices.sizes[0], sizes[0], int_arg(n.args[7]) != 0};
  Id bag = x.variable(sizes[0]), column = x.variable(sizes[1]);
  Id count = bags.count(to, bag), member = x.variable(count);
  Id place =
      checked(to, x.index_value(x.add(x.of_value(bags.start(to, bag)), member)), bags.n_indices);
  Id index = x.cast(to.at(indices, Ids{place}), TN_I64);
  Id is_counted = x.apply(TN_F_NE, TN_BOOL, index, x.number(padding, TN_I64));
  Id element =
      x.cast(to.at(table, Ids{strictly_checked(to, index, table.sizes[0]), column}), dtype);
  if (has_scales)
    element = x.apply(TN_F_MUL, dtype, element,
                      x.cast(to.at(to.tensor_arg(n.args[6]), Ids{place}), dtype));
  if (padding >= 0)
    element = x.apply(TN_F_SELECT, dtype, is_counted, element, x.number(0.0, dtype));
  std::string name = to.name_of(n.first_result);
  Tensor sums = to.fold_over({bag, column}, {member}, Fold::sum, dtype, sizes, element, name);
  Tensor counts{TN_I64, {sizes[0]}, {bag}, x.index_value(count)};
  if (padding >= 0 && mode == mode_mean)
    counts = to.fold_over({bag}, {member}, Fold::sum, TN_I64, {sizes[0]},
                          x.cast(is_counted, TN_I64), name);
  int32_t result = to.info(n.first_result).dtype;
  to.set(n.first_result, to.make(result, sizes, [&](std::span<const Id> i) {
    if (mode == mode_sum) return x.cast(to.at(sums, i), result);
    Id members =
        x.apply(TN_F_MAX, dtype, x.cast(to.at(counts, i.first(1)), dtype), x.number(1.0, dtype));
    return x.cast(x.apply(TN_F_DIV, dtype, to.at(sums, i), members), result);
  }));
  give_offset2bag(to, n.first_result + 1, offsets, sizes[0]);
  give_counts(to, n.first_result + 2, counts, mode == mode_mean);
  give_counts(to, n.first_result + 3, counts, mode == mode_mean);
  return true;
}

/// The indices of a backward node with their bags: as handed over, or, where the forward op left
/// those empty, by the offsets.
struct Members {
  Tensor indices, bags;
  Id n_bags;

  static std::optional<Members> of(Lowering& to, const node& n, const tn_arg& indices,
                                   const tn_arg& offsets, const tn_arg& bags, Id n_bags) {
    if (!is_index_list(to, indices) || !is_index_list(to, offsets) || !has_several(to, n_bags) ||
        !has_several(to, to.tensor_arg(indices).sizes[0]))
      return std::nullopt;
    Members out{index_tensor(to, indices), to.tensor_arg(bags), n_bags};
    if (out.bags.sizes[0] == out.indices.sizes[0]) {
      out.bags = index_tensor(to, bags);
      return out;
    }
    // With the last offset being an end, that is the beginning of no bag.
    out.bags =
        bags_of_indices(to, n.first_result, to.realised(index_tensor(to, offsets), "offsets"),
                        n_bags, out.indices.sizes[0]);
    return out;
  }
  Id index(Lowering& to, Id place) const { return to.x.cast(to.at(indices, Ids{place}), TN_I64); }
  Id bag(Lowering& to, Id place) const { return checked(to, to.at(bags, Ids{place}), n_bags); }
};

// Each index adds its bag's gradient to its row.
bool bag_backward(Lowering& to, const node& n) {
  const Tensor gradient = to.tensor_arg(n.args[0]);
  int64_t mode = int_arg(n.args[8]), padding = int_arg(n.args[11]);
  if (mode > mode_mean || !is_floating(gradient.dtype)) return false;
  Target target(to, n.first_result, Store::add);
  Id n_rows = target.sizes[0];
  if (!has_several(to, n_rows)) return false;
  auto members = Members::of(to, n, n.args[1], n.args[2], n.args[3], gradient.sizes[0]);
  if (!members) return false;
  Expressions& x = to.x;
  int32_t dtype = target.dtype;
  target.fill_with_zeros();
  Id place = x.variable(members->indices.sizes[0]), column = x.variable(target.sizes[1]);
  Id index = members->index(to, place), bag = members->bag(to, place);
  Id row = strictly_checked(to, index, n_rows);
  Id is_counted = x.apply(TN_F_NE, TN_BOOL, index, x.number(padding, TN_I64));
  Id value = x.cast(to.at(gradient, Ids{bag, column}), dtype);
  auto divide_by = [&](const Tensor& counts, Id at) {
    Id count = x.apply(TN_F_MAX, TN_F32, to.at(counts, Ids{at}), x.number(1.0, TN_F32));
    value = x.apply(TN_F_DIV, dtype, value, x.cast(count, dtype));
  };
  if (to.is_tensor(n.args[10]))
    value = x.apply(TN_F_MUL, dtype, value,
                    x.cast(to.at(to.tensor_arg(n.args[10]), Ids{place}), dtype));
  if (mode == mode_mean)
    divide_by(uses_of_rows(to, n.first_result, members->n_bags, {place}, bag, is_counted), bag);
  if (int_arg(n.args[7]))
    divide_by(uses_of_rows(to, n.first_result, n_rows, {place}, row, x.number(int64_t{1}, TN_BOOL)),
              row);
  if (padding >= 0) value = x.apply(TN_F_SELECT, dtype, is_counted, value, x.number(0.0, dtype));
  target.write(Store::add, {column}, {place}, value, {row, column});
  target.give();
  return true;
}

// The scale of an index: its row times its bag's gradient.
bool bag_scales_backward(Lowering& to, const node& n) {
  const Tensor gradient = to.tensor_arg(n.args[0]), table = to.tensor_arg(n.args[1]);
  int64_t padding = int_arg(n.args[6]);
  if (!is_floating(gradient.dtype) || !has_several(to, table.sizes[0])) return false;
  auto members = Members::of(to, n, n.args[2], n.args[3], n.args[4], gradient.sizes[0]);
  if (!members) return false;
  Expressions& x = to.x;
  int32_t dtype = compute_type(gradient.dtype), result = to.info(n.first_result).dtype;
  std::string name = to.name_of(n.first_result);
  Tensor dots = to.folded(
      Fold::sum, dtype, {members->indices.sizes[0]}, {table.sizes[1]}, name.c_str(),
      [&](std::span<const Id> place, std::span<const Id> column) {
        Id index = members->index(to, place[0]);
        Id row = strictly_checked(to, index, table.sizes[0]);
        Id g = x.cast(to.at(gradient, Ids{members->bag(to, place[0]), column[0]}), dtype);
        Id product = x.apply(TN_F_MUL, dtype, g, x.cast(to.at(table, Ids{row, column[0]}), dtype));
        Id is_counted = x.apply(TN_F_NE, TN_BOOL, index, x.number(padding, TN_I64));
        return x.apply(TN_F_SELECT, dtype, is_counted, product, x.number(0.0, dtype));
      });
  to.set(n.first_result, to.make(result, dots.sizes, [&](std::span<const Id> i) {
    return x.cast(to.at(dots, i), result);
  }));
  return true;
}

constexpr Rule bag_table[] = {
    {"aten._embedding_bag.default", embedding_bag},
    {"aten._embedding_bag_forward_only.default", embedding_bag},
    {"aten._embedding_bag_backward.default", bag_backward},
    {"aten._embedding_bag_per_sample_weights_backward.default", bag_scales_backward},
};

}  // namespace

std::span<const Rule> bag_rules() { return bag_table; }

}  // namespace loopir

// Made-up inputs of models.
#include "debug/random_inputs.h"

#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_call.h"

#include <tenon/ops/create.h>

namespace tenon {

using formats::ImportedModel;

namespace {

/// A small generator of our own: the same inputs in every build.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 0x9E3779B97F4A7C15u) {}
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double normal() {  // the sum of twelve uniform numbers has variance 1
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    uint64_t z = (state_ ^ (state_ >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

double draw(Numbers& numbers, Dtype dtype) {
  if (is_floating(dtype)) return numbers.normal();
  return static_cast<double>(
      static_cast<int>(numbers.uniform() * (dtype == Dtype::bool_ ? 2 : 10)));
}

}  // namespace

Tensor random_tensor(IntList sizes, Dtype dtype, uint64_t seed) {
  Numbers numbers(seed);
  Tensor t = make_tensor(sizes, Dtype::f64);
  int64_t n = t.numel().guard_int();
  for (int64_t i = 0; i < n; ++i) t.data_ptr<double>()[i] = draw(numbers, dtype);
  return dtype == Dtype::f64 ? t : t.to(dtype);
}

Tensor random_tensor(IntList sizes, IntList strides, Dtype dtype, uint64_t seed) {
  int64_t span = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return random_tensor(sizes, dtype, seed);
    span += (sizes[d] - 1) * strides[d];
  }
  Tensor memory = random_tensor(IntList{span}, dtype, seed);
  return make_view(memory, SymIntList(sizes), SymIntList(strides), 0);
}

std::vector<Tensor> random_leaves(const ImportedModel& model, const formats::Pt2Program& program,
                                  uint64_t seed) {
  formats::Pt2SymbolValues values = symbol_hints(program, model.symbols);
  std::vector<Tensor> leaves;
  for (const formats::ModelLeaf& leaf : model.leaves) {
    switch (leaf.kind) {
      case formats::LeafKind::tensor:
        leaves.push_back(random_tensor(IntList(formats::sizes_of(leaf, values)), leaf.dtype,
                                       seed + leaves.size()));
        break;
      case formats::LeafKind::constant:
        leaves.emplace_back();
        break;
      case formats::LeafKind::number: {
        int64_t n = formats::evaluate_with(leaf.number.expr, values).value_or(1);
        leaves.push_back(scalar_tensor(n, Dtype::i64));
        break;
      }
    }
  }
  return leaves;
}

}  // namespace tenon

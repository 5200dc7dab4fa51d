// Keys and values of tapes.
#include "autograd/collector.h"

#include "core/sym/sym_int.h"

#include <algorithm>
#include <cstring>

namespace tenon::autograd {

thread_local constinit const StandIns* stand_ins = nullptr;

namespace {

constexpr int64_t most_dims = 15;

bool is_row_major(IntList sizes, IntList strides) {
  int64_t running = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (strides[d] != running) return false;
    running *= std::max<int64_t>(sizes[d], 1);
  }
  return true;
}

IntList sizes_of(const Tensor& t) { return {t.head()->sizes, static_cast<size_t>(t.head()->ndim)}; }
IntList strides_of(const Tensor& t) {
  return {t.head()->strides, static_cast<size_t>(t.head()->ndim)};
}

}  // namespace

// A tensor whose strides fit an order of dimensions is of that order, also where sizes of 1 make it
// contiguous: with other sizes it is not.
TensorLayout layout_of(IntList sizes, IntList strides, bool counts_as_contiguous) {
  using Kind = TensorLayout::Kind;
  if (is_row_major(sizes, strides)) return {};
  uint8_t dims[most_dims];
  size_t rank = sizes.size();
  for (size_t i = 0; i < rank; ++i) dims[i] = static_cast<uint8_t>(rank - 1 - i);
  std::stable_sort(dims, dims + rank,
                   [&](uint8_t a, uint8_t b) { return strides[a] < strides[b]; });
  int64_t running = 1;
  uint64_t order = 0;
  bool is_dense = true;
  for (size_t i = 0; i < rank; ++i) {
    is_dense = is_dense && strides[dims[i]] == running;
    running *= std::max<int64_t>(sizes[dims[i]], 1);
    order |= uint64_t{dims[i]} << (4 * i);
  }
  if (is_dense) return {Kind::permuted, order};
  return {counts_as_contiguous ? Kind::contiguous : Kind::strided, 0};
}

void Collector::clear(bool keeps_places) {
  words.clear();
  tensors.clear();
  first_numbers.clear();
  numbers.clear();
  saved_places.clear();
  packed_places.clear();
  size_places.clear();
  list_places.clear();
  meta_places.clear();
  scalar_places.clear();
  known_.clear();
  refusal = nullptr;
  keeps_places_ = keeps_places;
}

void Collector::key_text(std::string_view text) {
  key(text.size());
  for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    key(word);
  }
}

// After going back the table may know tensors that are lifted no more.
uint32_t Collector::number_of(const Tensor& t) {
  auto fresh = static_cast<uint32_t>(tensors.size());
  uint32_t number = known_.number(t.head(), fresh);
  if (number == fresh || (number < fresh && tensors[number].head() == t.head())) return number;
  known_.renumber(t.head(), fresh);
  return fresh;
}

void Collector::describe(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  constexpr uint64_t has_offset = 1, is_number = 2;
  if (impl->ndim > most_dims) return refuse("a tensor with more than 15 dimensions");
  TensorLayout layout = layout_of(sizes_of(t), strides_of(t), impl->flags & TN_T_CONTIGUOUS);
  uint64_t facts = (impl->storage_offset ? has_offset : 0) | (is_wrapped_number(t) ? is_number : 0);
  key(static_cast<uint64_t>(impl->dtype) | static_cast<uint64_t>(impl->device_type) << 8 |
      static_cast<uint64_t>(impl->device_index & 0xff) << 16 |
      static_cast<uint64_t>(impl->ndim) << 24 | facts << 32 |
      static_cast<uint64_t>(impl->flags & (TN_T_CONJ | TN_T_NEG)) << 40 |
      static_cast<uint64_t>(layout.kind) << 56);
  note_sizes(static_cast<uint32_t>(impl->ndim));
  for (int64_t size : sizes_of(t)) number(size);
  if (layout.kind == TensorLayout::Kind::permuted) key(layout.order);
  if (layout.kind == TensorLayout::Kind::strided)
    for (int64_t stride : strides_of(t)) {
      bool is_fact = stride == 0 || stride == 1;
      key(is_fact ? static_cast<uint64_t>(stride) : 2);
      if (!is_fact) number(stride);
    }
  if (impl->storage_offset) number(impl->storage_offset);
}

void Collector::tensor(const Tensor& t) {
  if (of_one_body) {
    key(uint64_t{t.defined()});
    if (t.defined()) tensors.push_back(t);
    return;
  }
  if (!t.defined()) return key(uint64_t{0});
  if (t.is_fake()) return refuse("a tensor without data");
  uint32_t number = number_of(t);
  key(number + uint64_t{1});
  if (number < tensors.size()) return;
  tensors.push_back(t);
  first_numbers.push_back(static_cast<uint32_t>(numbers.size()));
  describe(t);
}

void Collector::saved(const SavedTensor& owner, const Tensor& t) {
  tensor(t);
  if (keeps_places_ && !refusal && t.defined()) saved_places.push_back({&owner, number_of(t)});
}

void Collector::packed(const SavedTensor& owner, const Tensor& like) {
  if (of_one_body) return refuse("a tensor that hooks bring back");
  constexpr uint64_t is_packed = ~uint64_t{0};
  key(is_packed);
  packed_places.push_back({&owner, static_cast<uint32_t>(numbers.size())});
  describe(like);
}

void Collector::list_of(const void* owner, size_t count) {
  key(count);
  if (keeps_places_)
    list_places.push_back(
        {owner, static_cast<uint32_t>(numbers.size()), static_cast<uint32_t>(count)});
}

void Collector::scalar_of(const SavedValue& owner, uint64_t word, bool is_floating) {
  if (keeps_places_)
    scalar_places.push_back({&owner, static_cast<uint32_t>(numbers.size()), is_floating});
  if (is_floating)
    number(static_cast<int64_t>(word));
  else
    argument(static_cast<int64_t>(word));
}

void Collector::meta_of(const SavedValue& owner, const Tensor& t) {
  if (of_one_body) return key(uint64_t{t.defined()});
  if (!t.defined()) {
    key(uint64_t{0});
    if (keeps_places_) meta_places.push_back({&owner, t, 0});
    return;
  }
  key(uint64_t{1});
  if (keeps_places_) meta_places.push_back({&owner, t, static_cast<uint32_t>(numbers.size())});
  describe(t);
}

void Collector::go_back(const Mark& mark) {
  words.resize(mark.words);
  tensors.resize(mark.tensors);
  first_numbers.resize(mark.tensors);
  numbers.resize(mark.numbers);
  size_places.resize(mark.sizes);
  saved_places.resize(mark.saved);
  packed_places.resize(mark.packed);
  list_places.resize(mark.lists);
  meta_places.resize(mark.metas);
  scalar_places.resize(mark.scalars);
}

const GradMeta& input_meta(const Node& node, size_t input) {
  if (stand_ins) {
    auto known = stand_ins->inputs.find(&node);
    if (known != stand_ins->inputs.end()) return known->second[input];
  }
  return node.inputs[input];
}

}  // namespace tenon::autograd

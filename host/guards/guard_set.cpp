// Guards: checking, and the text of what failed.
#include "guards/guard_set.h"

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"

#include <bit>

namespace tenon {

using detail::Leaves;
using detail::TensorHead;

uint64_t global_state() {
  // The type of autocast matters only while it is on.
  uint64_t autocast = thread_modes.include & bit(Key::autocast)
                          ? 1 + static_cast<uint64_t>(thread_modes.autocast_dtype)
                          : 0;
  return uint64_t{thread_modes.grad_enabled} | uint64_t{thread_modes.deterministic} << 1 |
         autocast << 2;
}

TensorGuard guard_of(const Tensor& tensor) {
  const TensorHead* h = tensor.head();
  return {.dtype = h->dtype,
          .device_type = h->device_type,
          .device_index = h->device_index,
          .ndim = h->ndim,
          .requires_grad = tensor.requires_grad(),
          .sizes = {h->sizes, h->sizes + h->ndim},
          .strides = {h->strides, h->strides + h->ndim}};
}

namespace {

// As t.requires_grad(), without a call where it can only be the flag: guards are checked often.
bool needs_grad(const Tensor& t) {
  return (t.head()->flags & TN_T_REQUIRES_GRAD) ||
         (impl_of(t)->base.defined() && t.requires_grad());
}

bool matches(const TensorGuard& g, const Tensor& t) {
  const TensorHead* h = t.head();
  if (!h) return !g.defined;
  if (!g.defined || h->dtype != g.dtype || h->device_type != g.device_type ||
      h->device_index != g.device_index || h->ndim != g.ndim ||
      (needs_grad(t) != g.requires_grad && !g.any_requires_grad))
    return false;
  for (int32_t d = 0; d < g.ndim; ++d) {
    if (h->sizes[d] != g.sizes[static_cast<size_t>(d)] && !(g.free_sizes >> d & 1)) return false;
    if (h->strides[d] != g.strides[static_cast<size_t>(d)] && !(g.free_strides >> d & 1))
      return false;
  }
  return true;
}

// Whether the arguments are the same objects where they were, and distinct where they were. A
// 64-bit filter finds out in one pass that all are distinct.
bool same_objects(const GuardSet& g, const Leaves& leaves) {
  uint64_t seen = 0;
  bool maybe_same = false;
  for (const Tensor* t : leaves.tensors.span()) {
    uint64_t bit =
        uint64_t{1} << ((reinterpret_cast<uint64_t>(t->head()) >> 6) * 0x9E3779B97F4A7C15u >> 58);
    maybe_same = maybe_same || (seen & bit);
    seen |= bit;
  }
  bool all_distinct = g.same_as.empty();
  if (!maybe_same) return all_distinct;
  size_t n = leaves.tensors.size();
  for (size_t i = 0; i < n; ++i) {
    size_t first = i;
    for (size_t j = 0; j < i && first == i; ++j)
      if (leaves.tensors[j]->is_same(*leaves.tensors[i]) && leaves.tensors[i]->defined()) first = j;
    if (first != (all_distinct ? i : g.same_as[i])) return false;
  }
  return true;
}

bool numbers_match(const GuardSet& g, const Leaves& leaves) {
  for (size_t i = 0; i < g.numbers.size(); ++i) {
    if (leaves.numbers[i].kind() != g.numbers[i].kind()) return false;
    if (!g.numbers[i].is_symbolic() && leaves.numbers[i].word() != g.numbers[i].word())
      return false;
  }
  return true;
}

}  // namespace

namespace {

int64_t integer_in(const TensorHead* head) {
  switch (static_cast<Dtype>(head->dtype)) {
    case Dtype::u8:
      return *static_cast<const uint8_t*>(head->data);
    case Dtype::i8:
      return *static_cast<const int8_t*>(head->data);
    case Dtype::i16:
      return *static_cast<const int16_t*>(head->data);
    case Dtype::i32:
      return *static_cast<const int32_t*>(head->data);
    default:
      return *static_cast<const int64_t*>(head->data);
  }
}

int64_t read(const SymbolLoad& l, const Leaves& leaves) {
  if (l.kind == SymbolLoad::Kind::number) return leaves.numbers[l.index].word();
  if (l.kind == SymbolLoad::Kind::item) return integer_in(leaves.tensors[l.index]->head());
  const TensorHead* head = leaves.tensors[l.index]->head();
  return l.kind == SymbolLoad::Kind::size ? head->sizes[l.dim] : head->strides[l.dim];
}

}  // namespace

void GuardSet::load(const Leaves& leaves, int64_t* words) const {
  for (size_t i = 0; i < loads.size(); ++i) words[i] = read(loads[i], leaves);
}

bool GuardSet::sizes_match(const Leaves& leaves, const int64_t* words) const {
  if (has_backend_program && !backend_program.check({words, loads.size()})) return false;
  if (equal_loads.empty()) return program.check({words, loads.size()});
  return failed_equality(leaves, words) < 0;
}

// The first of `equal_loads` that is not what it must be; their number when the program fails, -1
// when all hold.
int GuardSet::failed_equality(const Leaves& leaves, const int64_t* words) const {
  constexpr size_t inline_words = 64;
  int64_t local[inline_words];
  std::vector<int64_t> spilled(equal_loads.size() > inline_words ? equal_loads.size() : 0);
  int64_t* expected = spilled.empty() ? local : spilled.data();
  if (!program.run({words, loads.size()}, {expected, equal_loads.size()}))
    return static_cast<int>(equal_loads.size());
  for (size_t i = 0; i < equal_loads.size(); ++i)
    if (read(equal_loads[i], leaves) != expected[i]) return static_cast<int>(i);
  return -1;
}

void GuardSet::add_backend_conditions(std::string_view backend, const ShapeEnv& env,
                                      std::span<const Expr* const> symbols,
                                      std::span<const Expr* const> conditions) {
  if (conditions.empty()) return;
  backend_program = SymProgram::compile(symbols, conditions);
  has_backend_program = true;
  for (const Expr* c : conditions)
    backend_texts.push_back(message("{} (asked for by backend {})", env.source_text(c), backend));
}

bool GuardSet::check(const Leaves& leaves) const {
  if (plain_list) [[unlikely]]
    return why_not(leaves).empty();
  if (global_state() != global || leaves.structure != structure ||
      leaves.tensors.size() != tensors.size() || leaves.plain.size() != plain.size())
    return false;
  for (size_t i = 0; i < plain.size(); ++i)
    if (leaves.plain[i] != plain[i]) return false;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!matches(tensors[i], *leaves.tensors[i])) return false;
  if (leaves.texts.size() != texts.size() || leaves.numbers.size() != numbers.size()) return false;
  for (size_t i = 0; i < texts.size(); ++i)
    if (leaves.texts[i] != texts[i]) return false;
  if (!numbers_match(*this, leaves)) return false;
  if (tensors.size() > 1 && !same_objects(*this, leaves)) return false;
  if (loads.empty()) return true;
  constexpr size_t inline_words = 64;
  int64_t local[inline_words];
  std::vector<int64_t> spilled;
  int64_t* words = local;
  if (loads.size() > inline_words) {
    spilled.resize(loads.size());
    words = spilled.data();
  }
  load(leaves, words);
  return sizes_match(leaves, words);
}

namespace {

std::string tensor_reason(const TensorGuard& g, const Tensor& t, size_t index) {
  std::string who = message("tensor argument {}", index);
  if (!t.defined() || !g.defined) return who + (g.defined ? " is undefined" : " is defined");
  const TensorHead* h = t.head();
  auto differs = [&](std::string_view what, const auto& expected, const auto& found) {
    return message("{}: {} expected {}, found {}", who, what, expected, found);
  };
  if (h->dtype != g.dtype) return differs("dtype", static_cast<Dtype>(g.dtype), t.dtype());
  if (h->device_type != g.device_type || h->device_index != g.device_index)
    return differs("device", Device{static_cast<DeviceType>(g.device_type), g.device_index},
                   t.device());
  if (h->ndim != g.ndim) return differs("rank", g.ndim, h->ndim);
  if (needs_grad(t) != g.requires_grad && !g.any_requires_grad)
    return differs("requires_grad", g.requires_grad, t.requires_grad());
  for (int32_t d = 0; d < g.ndim; ++d)
    if (h->sizes[d] != g.sizes[static_cast<size_t>(d)] && !(g.free_sizes >> d & 1))
      return differs(message("size at dimension {}", d), g.sizes[static_cast<size_t>(d)],
                     h->sizes[d]);
  for (int32_t d = 0; d < g.ndim; ++d)
    if (h->strides[d] != g.strides[static_cast<size_t>(d)] && !(g.free_strides >> d & 1))
      return differs(message("stride at dimension {}", d), g.strides[static_cast<size_t>(d)],
                     h->strides[d]);
  return who + " differs";
}

std::string plain_text(const detail::PlainLeaf& leaf) {
  if (leaf.kind == 1) return message("{}", std::bit_cast<double>(leaf.bits));
  if (leaf.kind == 2) return leaf.bits ? "true" : "false";
  return message("{}", static_cast<int64_t>(leaf.bits));
}

}  // namespace

std::string GuardSet::why_not(const Leaves& leaves) const {
  if (global_state() != global)
    return "global state: grad mode, deterministic mode or autocast changed";
  if (leaves.structure != structure || leaves.tensors.size() != tensors.size() ||
      leaves.plain.size() != plain.size() || leaves.texts.size() != texts.size() ||
      leaves.numbers.size() != numbers.size())
    return "the structure of the arguments changed (a container's size, an optional, an "
           "alternative)";
  for (size_t i = 0; i < plain.size(); ++i)
    if (leaves.plain[i] != plain[i])
      return message(
          "plain value {}: expected {}, found {}; declare it SymInt or SymFloat to make it "
          "dynamic",
          i, plain_text(plain[i]), plain_text(leaves.plain[i]));
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!matches(tensors[i], *leaves.tensors[i]))
      return tensor_reason(tensors[i], *leaves.tensors[i], i);
  for (size_t i = 0; i < texts.size(); ++i)
    if (leaves.texts[i] != texts[i])
      return message("text {}: expected '{}', found '{}'", i, texts[i], leaves.texts[i]);
  for (size_t i = 0; i < numbers.size(); ++i)
    if (leaves.numbers[i].kind() != numbers[i].kind() ||
        (!numbers[i].is_symbolic() && leaves.numbers[i].word() != numbers[i].word()))
      return message("number {}: expected {}, found {}", i, numbers[i], leaves.numbers[i]);
  if (tensors.size() > 1 && !same_objects(*this, leaves))
    return "the arguments alias each other differently";
  std::vector<int64_t> words(loads.size());
  load(leaves, words.data());
  int failed = program.failed_condition(words);
  if (failed >= 0) return condition_texts[static_cast<size_t>(failed)];
  if (has_backend_program && (failed = backend_program.failed_condition(words)) >= 0)
    return backend_texts[static_cast<size_t>(failed)];
  failed = equal_loads.empty() ? -1 : failed_equality(leaves, words.data());
  return failed < 0 ? "" : equal_texts.at(static_cast<size_t>(failed));
}

std::string GuardSet::to_text() const {
  std::string out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorGuard& g = tensors[i];
    if (!g.defined) {
      out += message("tensor {}: undefined\n", i);
      continue;
    }
    out += message("tensor {}: {} on {}, sizes [", i, static_cast<Dtype>(g.dtype),
                   Device{static_cast<DeviceType>(g.device_type), g.device_index});
    for (size_t d = 0; d < g.sizes.size(); ++d)
      out += (d ? ", " : "") +
             (g.free_sizes >> d & 1 ? std::string("any") : std::to_string(g.sizes[d]));
    out += "], strides [";
    for (size_t d = 0; d < g.strides.size(); ++d)
      out += (d ? ", " : "") +
             (g.free_strides >> d & 1 ? std::string("any") : std::to_string(g.strides[d]));
    out += g.any_requires_grad ? "]\n" : message("], requires_grad {}\n", g.requires_grad);
  }
  for (size_t i = 0; i < plain.size(); ++i)
    out += message("plain value {} is {}\n", i, plain_text(plain[i]));
  for (size_t i = 0; i < texts.size(); ++i) out += message("text {} is '{}'\n", i, texts[i]);
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!numbers[i].is_symbolic()) out += message("number {} is {}\n", i, numbers[i]);
  for (const auto* texts : {&condition_texts, &equal_texts, &backend_texts})
    for (const std::string& c : *texts) out += c + "\n";
  return out;
}

}  // namespace tenon

// What guards are made of: tensors, and conditions on symbolic sizes.
#include "guards/guard_set.h"

#include "core/error.h"
#include "core/sym/shape_env.h"

#include <algorithm>

namespace tenon {

using detail::Leaves;
using detail::TensorHead;

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

std::vector<DenseStep> dense_steps(const Tensor& tensor) {
  const TensorHead* h = tensor.head();
  std::vector<uint32_t> order(static_cast<size_t>(h->ndim));
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<uint32_t>(order.size()) - 1 - i;
  std::ranges::stable_sort(order, {}, [h](uint32_t d) { return h->strides[d]; });
  std::vector<DenseStep> steps;
  for (size_t k = 0; k < order.size(); ++k)
    for (size_t j = k; j-- > 0;) {
      uint32_t outer = order[k], inner = order[j];
      if (h->strides[outer] <= 1 || h->strides[inner] <= 0 ||
          h->strides[inner] * h->sizes[inner] != h->strides[outer])
        continue;
      steps.push_back({outer, inner});
      break;
    }
  return steps;
}

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
  if (l.kind == SymbolLoad::Kind::body) return 0;
  if (l.kind == SymbolLoad::Kind::number) return leaves.numbers[l.index].word();
  if (l.kind == SymbolLoad::Kind::item) return integer_in(leaves.tensors[l.index]->head());
  const TensorHead* head = leaves.tensors[l.index]->head();
  return l.kind == SymbolLoad::Kind::size ? head->sizes[l.dim] : head->strides[l.dim];
}

// Words for a check, on the stack where they are few.
struct Words {
  static constexpr size_t n_inline = 64;
  int64_t local[n_inline];
  std::vector<int64_t> spilled;
  int64_t* data = local;
  explicit Words(size_t n) {
    if (n <= n_inline) return;
    spilled.resize(n);
    data = spilled.data();
  }
};

}  // namespace

std::vector<const Expr*> argument_symbols(const ShapeEnv& env) {
  std::vector<const Expr*> symbols;
  for (const SymbolInfo& s : env.symbols())
    if (s.is_from_input() && !s.stands_for) symbols.push_back(s.expr);
  return symbols;
}

void GuardSet::load(const Leaves& leaves, int64_t* words, std::span<const int64_t> given) const {
  for (size_t i = 0; i < loads.size(); ++i) {
    bool is_given = loads[i].kind == SymbolLoad::Kind::body && loads[i].index < given.size();
    words[i] = is_given ? given[loads[i].index] : read(loads[i], leaves);
  }
}

bool GuardSet::numbers_hold(const Leaves& leaves, std::span<const int64_t> numbers,
                            size_t n) const {
  n = std::min(n, numbers_of_body.size());
  if (n == 0) return true;
  std::vector<int64_t> words(loads.size());
  load(leaves, words.data(), numbers);
  return std::ranges::all_of(std::span(numbers_of_body).first(n), [&](const NumberGuard& g) {
    return g.conditions.empty() || g.program.check(words);
  });
}

bool GuardSet::sizes_hold(const Leaves& leaves) const {
  Words words(loads.size());
  load(leaves, words.data);
  std::span<const int64_t> values(words.data, loads.size());
  if (has_backend_program && !backend_program.check(values)) return false;
  if (equal_loads.empty()) return program.check(values);
  return failed_equality(leaves, words.data) < 0;
}

std::string GuardSet::why_sizes_fail(const Leaves& leaves) const {
  std::vector<int64_t> words(loads.size());
  load(leaves, words.data());
  auto text_of = [](const std::vector<std::string>& texts, int index) {
    auto i = static_cast<size_t>(index);
    return i < texts.size() ? texts[i] : "a size or number is out of range";
  };
  if (int failed = program.failed_condition(words); failed >= 0)
    return text_of(condition_texts, failed);
  if (int failed = has_backend_program ? backend_program.failed_condition(words) : -1; failed >= 0)
    return text_of(backend_texts, failed);
  return text_of(equal_texts, failed_equality(leaves, words.data()));
}

// The first of `equal_loads` that is not what it must be; their number when the program fails, -1
// when all hold.
int GuardSet::failed_equality(const Leaves& leaves, const int64_t* words) const {
  Words expected(equal_loads.size());
  if (!program.run({words, loads.size()}, {expected.data, equal_loads.size()}))
    return static_cast<int>(equal_loads.size());
  for (size_t i = 0; i < equal_loads.size(); ++i)
    if (read(equal_loads[i], leaves) != expected.data[i]) return static_cast<int>(i);
  return -1;
}

void GuardSet::add_backend_conditions(std::string_view backend, const ShapeEnv& env,
                                      std::span<const Expr* const> conditions) {
  std::vector<const Expr*> before_body;
  std::vector<const Expr*> symbols = argument_symbols(env);
  for (const Expr* c : conditions)
    if (!add_number_condition(env, symbols, c)) before_body.push_back(c);
  if (before_body.empty()) return;
  backend_program = SymProgram::compile(symbols, before_body);
  has_backend_program = true;
  for (const Expr* c : before_body)
    backend_texts.push_back(message("{} (asked for by backend {})", env.source_text(c), backend));
}

// Kept with the last number that it is about.
bool GuardSet::add_number_condition(const ShapeEnv& env, std::span<const Expr* const> symbols,
                                    const Expr* condition) {
  std::optional<uint32_t> last;
  for (const Expr* symbol : free_symbols(condition))
    if (const SymbolSource& from = env.info(symbol).source;
        from.kind == SymbolSource::Kind::body_number)
      last = std::max(last.value_or(0), from.index);
  if (!last) return false;
  if (numbers_of_body.size() <= *last) numbers_of_body.resize(*last + 1);
  NumberGuard& guard = numbers_of_body[*last];
  guard.conditions.push_back(condition);
  guard.program = SymProgram::compile(symbols, guard.conditions);
  return true;
}

}  // namespace tenon

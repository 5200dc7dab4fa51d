// The table of remembered meta results: keys of bytes, descriptions of tensors.
#include "graph/meta_cache.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/inline_vector.h"
#include "core/tensor/tensor_impl.h"
#include "ops/foreign_results.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tenon {

namespace {

struct Remembered {
  TensorMeta meta;
  int64_t offset = 0;
  bool requires_grad = false, wrapped_number = false;
};
using Answer = std::vector<Remembered>;

/// What the results of a call depend on, in words: the op, what is run, then each argument with its kind
/// and length.
class CallKey {
 public:
  /// Nothing where the call is not to be remembered.
  static std::optional<CallKey> of(const CallArgs& call, BoxedFn run) {
    constexpr uint64_t others = TN_TAG_DATA_DEPENDENT;
    const OpEntry& op = *call.op;
    if (op.mutated_args || op.def->view || op.functional || (op.tags & others) ||
        op.schema.returns_list())
      return std::nullopt;
    CallKey key;
    key.add(static_cast<uint64_t>(op.id), thread_modes.grad_enabled);
    key.add(reinterpret_cast<uint64_t>(run));
    for (uint32_t i = 0; i < call.n_args; ++i)
      if (!key.add_value(call.args[i])) return std::nullopt;
    return key;
  }

  std::string_view bytes() const {
    return {reinterpret_cast<const char*>(words_.data()), words_.size() * sizeof(uint64_t)};
  }

 private:
  void add(uint64_t word) { words_.push_back(word); }
  // Two small numbers in one word.
  void add(uint64_t low, uint64_t high) { add(low | high << 32); }

  bool add_tensor(const Tensor& t) {
    if (!t.defined()) return add(0), true;
    SymInt offset = sym_offset_of(t);
    if (t.sizes().is_symbolic() || t.strides().is_symbolic() || offset.is_symbolic()) return false;
    uint64_t facts = 1u | t.requires_grad() << 1 | is_wrapped_number(t) << 2;
    add(facts | t.sizes().size() << 8, static_cast<uint64_t>(t.dtype()));
    add(static_cast<uint32_t>(t.device().type), static_cast<uint32_t>(t.device().index));
    add(static_cast<uint64_t>(offset.word()));
    add_words(t.sizes());
    add_words(t.strides());
    return true;
  }

  bool add_words(SymIntList list) {
    if (list.is_symbolic()) return false;
    for (SymInt v : list) add(static_cast<uint64_t>(v.word()));
    return true;
  }

  bool add_bytes(const Value& v, size_t size) {
    const char* from = v.as<char>();
    for (size_t done = 0; done < size; done += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, from + done, std::min(sizeof word, size - done));
      add(word);
    }
    return true;
  }

  bool add_value(const Value& v) {
    add(static_cast<uint64_t>(v.tag), v.count);
    switch (v.tag) {
      case Tag::none:
        return true;
      case Tag::tensor:
        return add_tensor(*v.as<Tensor>());
      case Tag::tensors:
        for (uint32_t i = 0; i < v.count; ++i)
          if (!add_tensor(v.as<Tensor>()[i])) return false;
        return true;
      case Tag::integer:
      case Tag::floating:
      case Tag::boolean:
        add(v.payload);
        return !v.number().is_symbolic();
      case Tag::ints:
        return add_words(SymIntList(List<SymInt>(v.as<SymInt>(), v.count)));
      case Tag::floats:
        return add_bytes(v, v.count * sizeof(double));
      case Tag::bools:
        return add_bytes(v, v.count * sizeof(bool));
      case Tag::string:
        return add_bytes(v, v.count);
      case Tag::dtype:
      case Tag::layout:
      case Tag::memory_format:
      case Tag::device:
        add(v.payload);
        return true;
      default:
        return false;
    }
  }

  InlineVector<uint64_t, 48> words_;
};

struct HashOfBytes {
  using is_transparent = void;
  size_t operator()(std::string_view bytes) const { return std::hash<std::string_view>()(bytes); }
};

struct Table {
  std::mutex answers_mutex;
  std::unordered_map<std::string, std::shared_ptr<const Answer>, HashOfBytes, std::equal_to<>>
      answers;
};

Table& table() {
  static Table& table = *new Table();
  return table;
}

Tensor result_tensor(const Value& v) {
  return share(reinterpret_cast<detail::TensorHead*>(v.payload));
}

bool shares_with_argument(const CallArgs& call, const Tensor& result) {
  for (uint32_t i = 0; i < call.n_args; ++i) {
    const Value& v = call.args[i];
    bool is_list = v.tag == Tag::tensors;
    if (v.tag != Tag::tensor && !is_list) continue;
    for (uint32_t k = 0; k < (is_list ? v.count : 1); ++k) {
      const Tensor& t = v.as<Tensor>()[k];
      if (t.defined() && (t.is_same(result) || shares_storage(t, result))) return true;
    }
  }
  return false;
}

// Nothing where the results are not fresh tensors.
std::optional<Answer> answer_of(const CallArgs& call) {
  Answer answer;
  for (uint32_t r = 0; r < call.n_results; ++r) {
    if (call.results[r].tag != Tag::tensor_owned) return std::nullopt;
    Tensor t = result_tensor(call.results[r]);
    TensorMeta meta = meta_of(t);
    bool symbolic = list_of(meta.sizes).is_symbolic() || list_of(meta.strides).is_symbolic() ||
                    sym_offset_of(t).is_symbolic();
    if (symbolic || shares_with_argument(call, t)) return std::nullopt;
    for (uint32_t before = 0; before < r; ++before)
      if (shares_storage(result_tensor(call.results[before]), t)) return std::nullopt;
    answer.push_back(
        {std::move(meta), sym_offset_of(t).word(), t.requires_grad(), is_wrapped_number(t)});
  }
  return answer;
}

void give(const CallArgs& call, const Answer& answer) {
  for (uint32_t r = 0; r < call.n_results; ++r) {
    Tensor fake = make_fake(answer[r].meta, answer[r].offset);
    if (answer[r].requires_grad) mark_requires_grad(fake, true);
    if (answer[r].wrapped_number) impl_of(fake)->ensure_extra().wrapped_number = true;
    call.results[r] = Value::own(std::move(fake));
  }
}

bool same(const TensorMeta& a, const TensorMeta& b) {
  auto equal = [](const Dims& x, const Dims& y) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (x[i].word() != y[i].word()) return false;
    return true;
  };
  return a.dtype == b.dtype && a.device == b.device && equal(a.sizes, b.sizes) &&
         equal(a.strides, b.strides);
}

void crosscheck(const CallArgs& call, const Answer& known, BoxedFn run) {
  run(call);
  std::optional<Answer> now = answer_of(call);
  bool equal = now && now->size() == known.size();
  for (size_t r = 0; equal && r < known.size(); ++r) equal = same((*now)[r].meta, known[r].meta);
  if (equal) return;
  std::string args;
  for (uint32_t i = 0; i < call.n_args; ++i)
    if (call.args[i].tag == Tag::tensor) args += " " + symbolic_text(*call.args[i].as<Tensor>());
  drop_results(call);
  ensure(false, message("the meta function of {} gives another answer than before for{}",
                        call.op->name, args));
}

std::shared_ptr<const Answer> find(const CallKey& key) {
  std::lock_guard lock(table().answers_mutex);
  auto found = table().answers.find(key.bytes());
  return found == table().answers.end() ? nullptr : found->second;
}

void keep(const CallKey& key, Answer answer) {
  constexpr size_t most_answers = 4096;
  auto kept = std::make_shared<const Answer>(std::move(answer));
  std::lock_guard lock(table().answers_mutex);
  if (table().answers.size() >= most_answers) table().answers.clear();
  table().answers.insert_or_assign(std::string(key.bytes()), std::move(kept));
}

}  // namespace

void run_meta_cached(const CallArgs& call, BoxedFn run) {
  static report::Counter& hits = report::counter("graph.meta_cache_hits");
  static report::Counter& misses = report::counter("graph.meta_cache_misses");
  const config::DynamoFlags& flags = config::flags().dynamo;
  std::optional<CallKey> key;
  if (flags.fake_tensor_cache_enabled) key = CallKey::of(call, run);
  if (!key) return run(call);
  if (std::shared_ptr<const Answer> known = find(*key)) {
    hits.add();
    if (flags.fake_tensor_cache_crosscheck_enabled) return crosscheck(call, *known, run);
    return give(call, *known);
  }
  misses.add();
  run(call);
  if (std::optional<Answer> answer = answer_of(call)) keep(*key, std::move(*answer));
}

void forget_meta_results() {
  std::lock_guard lock(table().answers_mutex);
  table().answers.clear();
}

}  // namespace tenon

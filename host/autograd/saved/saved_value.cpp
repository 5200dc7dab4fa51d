// Keeping values of calls.
#include "autograd/saved/saved_value.h"

#include "autograd/collector.h"
#include "core/sym/shape_env.h"
#include "graph/graph.h"
#include "graph/symbol_use.h"

#include <algorithm>

namespace tenon::autograd {

namespace {

Tensor fake_of(const Tensor& t) {
  return t.defined() ? make_fake(meta_of(t), sym_offset_of(t)) : Tensor();
}

// What is compared with another run is plain there.
void refuse_symbols(Collector& collector, std::span<const uint64_t> words) {
  for (uint64_t word : words)
    if (SymInt::from_word(static_cast<int64_t>(word)).is_symbolic()) collector.refuse("a symbol");
}

}  // namespace

SavedValue::More& SavedValue::more() {
  if (!more_) more_ = std::make_unique<More>();
  return *more_;
}

void SavedValue::keep_tensors(TensorList list, bool copy) {
  for (const Tensor& t : list)
    if (part_ == Part::meta)
      more().fakes.push_back(fake_of(t));
    else
      more().tensors.emplace_back(copy && t.defined() ? t.clone() : t, false);
  more();
}

void SavedValue::keep_list(const Value& list) {
  const auto* words = list.as<uint64_t>();
  if (list.tag == Tag::bools) {
    more().bools = std::make_unique<bool[]>(list.count);
    std::copy_n(list.as<bool>(), list.count, more_->bools.get());
  } else if (list.tag == Tag::string) {
    more().text.assign(list.as<char>(), list.count);
  } else {
    more().words.assign(words, words + list.count);
  }
}

SavedValue::SavedValue(const Value& argument, Part part, bool copy)
    : tag_(argument.tag), part_(part), plain_(argument) {
  switch (tag_) {
    case Tag::tensor: {
      const Tensor& t = *argument.as<Tensor>();
      if (part == Part::whole) {
        tensor_ = SavedTensor(copy ? t.clone() : t, false);
      } else if (part == Part::meta) {
        more().fakes.push_back(fake_of(t));
      } else {
        more();  // also for a tensor without dimensions
        for (SymInt size : t.sizes()) more_->words.push_back(static_cast<uint64_t>(size.word()));
      }
      break;
    }
    case Tag::tensors:
      keep_tensors(TensorList(argument.as<Tensor>(), argument.count), copy);
      break;
    case Tag::ints:
    case Tag::floats:
    case Tag::bools:
    case Tag::string:
      keep_list(argument);
      break;
    default:
      break;
  }
}

SavedValue::SavedValue(const Tensor& result, Part part, uint32_t result_input)
    : tag_(result.defined() ? Tag::tensor : Tag::none), part_(part) {
  if (part == Part::meta)
    more().fakes.push_back(fake_of(result));
  else
    tensor_ = SavedTensor(result, true, result_input);
}

const std::vector<uint64_t>& SavedValue::words() const {
  if (stand_ins)
    if (auto known = stand_ins->lists.find(this); known != stand_ins->lists.end())
      return known->second;
  return more_->words;
}

Value SavedValue::scalar() const {
  if (stand_ins)
    if (auto known = stand_ins->scalars.find(this); known != stand_ins->scalars.end())
      return known->second;
  return plain_;
}

const std::vector<Tensor>& SavedValue::fakes() const {
  if (stand_ins)
    if (auto known = stand_ins->metas.find(this); known != stand_ins->metas.end())
      return known->second;
  return more_->fakes;
}

void SavedValue::add_to(CallMemory& call, const std::shared_ptr<Node>& owner,
                        std::string_view what) const {
  switch (tag_) {
    case Tag::tensor:
      if (part_ == Part::sizes)
        call.add(Value::pointer(Tag::ints, words().data(), words().size()));
      else
        call.add(part_ == Part::meta ? fakes()[0] : tensor_.unpack(owner, what));
      break;
    case Tag::tensors: {
      std::vector<Tensor> list = fakes();
      for (const SavedTensor& t : more_->tensors) list.push_back(t.unpack(owner, what));
      call.add(std::move(list));
      break;
    }
    case Tag::ints:
    case Tag::floats:
      call.add(Value::pointer(tag_, words().data(), words().size()));
      break;
    case Tag::bools:
      call.add(Value::pointer(Tag::bools, more_->bools.get(), plain_.count));
      break;
    case Tag::string:
      call.add(Value::of(std::string_view(more_->text)));
      break;
    default:
      call.add(scalar());
  }
}

bool SavedValue::collect_list(Collector& collector, bool may_differ) const {
  if (tag_ == Tag::string) return collector.key_text(more_->text), true;
  if (may_differ)
    collector.list_of(this, more_->words.size());
  else
    collector.key(tag_ == Tag::bools ? plain_.count : more_->words.size());
  if (collector.of_one_body && tag_ == Tag::ints) refuse_symbols(collector, more_->words);
  for (uint64_t word : more_->words)
    if (may_differ)
      collector.argument(static_cast<int64_t>(word));
    else
      collector.key(word);
  for (uint32_t i = 0; tag_ == Tag::bools && i < plain_.count; ++i)
    collector.key(static_cast<uint64_t>(more_->bools[i]));
  return true;
}

bool SavedValue::collect(Collector& collector, bool may_differ) const {
  collector.key(static_cast<uint64_t>(tag_) | static_cast<uint64_t>(part_) << 8);
  switch (tag_) {
    case Tag::tensor:
    case Tag::tensors:
      break;
    case Tag::ints:
      return collect_list(collector, may_differ);
    case Tag::floats:
    case Tag::bools:
    case Tag::string:
      return collect_list(collector, false);
    case Tag::integer:
    case Tag::floating:
      if (plain_.is_symbolic()) collector.refuse("a symbol");
      if (!may_differ) return collector.key(plain_.payload), true;
      return collector.scalar_of(*this, plain_.payload, tag_ == Tag::floating), true;
    case Tag::graph:
      return false;
    default:
      return collector.key(plain_.payload), true;
  }
  if (part_ == Part::sizes) {
    if (collector.of_one_body) return true;
    collector.list_of(this, more_->words.size());
    for (uint64_t word : more_->words) collector.number(static_cast<int64_t>(word));
    return true;
  }
  bool is_list = tag_ == Tag::tensors;
  if (is_list) collector.key(more_->fakes.size() + more_->tensors.size());
  if (more_)
    for (const Tensor& fake : more_->fakes) collector.meta_of(*this, fake);
  if (part_ == Part::whole && !is_list) return tensor_.collect(collector);
  for (size_t i = 0; is_list && i < more_->tensors.size(); ++i)
    if (!more_->tensors[i].collect(collector)) return false;
  return true;
}

namespace {

// Nothing is decided about a symbol by looking at its value in the run that is recorded.
bool stands_for(const ShapeEnv& env, Number recorded, Number plain) {
  if (plain.is_symbolic() || plain.kind() != recorded.kind()) return false;
  if (!recorded.is_symbolic()) return recorded.word() == plain.word();
  std::optional<SymValue> value = env.hint(expression_of(recorded));
  return value && value->word == plain.word();
}

}  // namespace

bool stand_for(const ShapeEnv& env, SymIntList recorded, SymIntList plain) {
  return recorded.is_symbolic() && std::ranges::equal(recorded, plain, [&](SymInt r, SymInt p) {
           return stands_for(env, r, p);
         });
}

void SavedValue::take_symbols(const ShapeEnv& env, const Value& argument) {
  if (argument.tag != tag_) return;
  if (tag_ == Tag::ints)
    take_list(env, SymIntList(List<SymInt>(argument.as<SymInt>(), argument.count)));
  if (argument.is_number() && stands_for(env, argument.number(), plain_.number()))
    plain_ = argument;
}

void SavedValue::take_symbols(const ShapeEnv& env, const GraphValue& tensor) {
  if (tag_ != Tag::tensor) return;
  SymIntList sizes = list_of(tensor.meta.sizes);
  if (part_ == Part::sizes) take_list(env, sizes);
  if (part_ == Part::meta && stand_for(env, sizes, more_->fakes[0].sizes()))
    more_->fakes[0] = make_fake(tensor.meta, tensor.offset);
}

void SavedValue::take_list(const ShapeEnv& env, SymIntList recorded) {
  std::vector<uint64_t>& words = more_->words;
  SymIntList plain(List<SymInt>(reinterpret_cast<const SymInt*>(words.data()), words.size()));
  if (stand_for(env, recorded, plain))
    std::ranges::transform(recorded, words.begin(),
                           [](SymInt r) { return static_cast<uint64_t>(r.word()); });
}

bool SavedValue::release() {
  bool held = tensor_.defined();
  tensor_.release();
  if (!more_) return held;
  for (SavedTensor& t : more_->tensors) {
    held = held || t.defined();
    t.release();
  }
  return held;
}

}  // namespace tenon::autograd

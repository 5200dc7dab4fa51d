// Keeping values of calls.
#include "autograd/saved_value.h"

#include <algorithm>

namespace tenon::autograd {

namespace {

Tensor fake_of(const Tensor& t) {
  return t.defined() ? make_fake(meta_of(t), sym_offset_of(t)) : Tensor();
}

}  // namespace

SavedValue::More& SavedValue::more() {
  if (!more_) more_ = std::make_unique<More>();
  return *more_;
}

void SavedValue::keep_tensors(TensorList list) {
  for (const Tensor& t : list)
    if (part_ == Part::meta)
      more().fakes.push_back(fake_of(t));
    else
      more().tensors.emplace_back(t, false);
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
      keep_tensors(TensorList(argument.as<Tensor>(), argument.count));
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

void SavedValue::add_to(CallMemory& call, const std::shared_ptr<Node>& owner,
                        std::string_view what) const {
  switch (tag_) {
    case Tag::tensor:
      if (part_ == Part::sizes)
        call.add(Value::pointer(Tag::ints, more_->words.data(), more_->words.size()));
      else
        call.add(part_ == Part::meta ? more_->fakes[0] : tensor_.unpack(owner, what));
      break;
    case Tag::tensors: {
      std::vector<Tensor> list = more_->fakes;
      for (const SavedTensor& t : more_->tensors) list.push_back(t.unpack(owner, what));
      call.add(std::move(list));
      break;
    }
    case Tag::ints:
    case Tag::floats:
      call.add(Value::pointer(tag_, more_->words.data(), more_->words.size()));
      break;
    case Tag::bools:
      call.add(Value::pointer(Tag::bools, more_->bools.get(), plain_.count));
      break;
    case Tag::string:
      call.add(Value::of(std::string_view(more_->text)));
      break;
    default:
      call.add(plain_);
  }
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

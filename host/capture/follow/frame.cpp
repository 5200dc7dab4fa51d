// Making frames, and fitting them to the sizes of a call.
#include "capture/follow/frame.h"

#include "capture/renamed.h"
#include "core/sym/shape_env.h"
#include "core/tensor/owner_thread.h"
#include "graph/symbol_use.h"

#include <algorithm>

namespace tenon {

namespace {

// Numbers of frames and of recorders are numbers of traces: a fake has one.
std::atomic<uint64_t> next_frame{first_frame_trace};

bool is_symbolic(const GraphValue& value) {
  auto any = [](const Dims& dims) {
    return std::ranges::any_of(dims, [](SymInt v) { return v.is_symbolic(); });
  };
  return value.kind == ValueKind::tensor &&
         (any(value.meta.sizes) || any(value.meta.strides) || value.offset.is_symbolic());
}

SymInt plain(SymInt v) { return v.is_symbolic() ? SymInt(0) : v; }

// The fake of a value; sizes that depend on symbols come later.
Tensor fake_of(const GraphValue& value, StorageRef storage) {
  TensorMeta meta = value.meta;
  for (SymInt& v : meta.sizes) v = plain(v);
  for (SymInt& v : meta.strides) v = plain(v);
  Tensor fake = make_fake(meta, plain(value.offset), std::move(storage));
  if (value.flags.requires_grad) mark_requires_grad(fake, true);
  return fake;
}

}  // namespace

FrameStore::FrameStore(const Path& path, const Recording& recording)
    : path_(path), has_tape_(recording.has_backward) {
  find_sharing();
  find_what_runs_change();
  find_symbols(recording);
  const std::vector<TensorGuard>& arguments = recording.guards.tensors;
  for (uint32_t leaf = 0; leaf < arguments.size(); ++leaf) {
    uint32_t object = path.argument_objects()[leaf];
    if (object != Path::no_object && !arguments[leaf].any_requires_grad)
      needs_of_arguments_.emplace_back(object, arguments[leaf].requires_grad);
  }
}

FrameStore::~FrameStore() { delete spare_.load(); }

// Also through objects that are in groups of several parts.
void FrameStore::find_sharing() {
  sharing_.resize(path_.objects().size());
  for (const Path::Part& part : path_.parts()) {
    std::map<uint32_t, uint32_t> first_of_group;
    for (ValueId v = 0; v < part.graph->values().size(); ++v) {
      uint32_t object = path_.object_of(part.first_value + v),
               group = part.graph->value(v).alias_group;
      if (object == Path::no_object || !group) continue;
      join(first_of_group.try_emplace(group, object).first->second, object);
    }
  }
}

void FrameStore::join(uint32_t a, uint32_t b) {
  for (uint32_t o : {a, b})
    if (!sharing_[o]) sharing_[o] = std::make_shared<std::vector<uint32_t>>(1, o);
  if (sharing_[a] == sharing_[b]) return;
  std::shared_ptr<std::vector<uint32_t>> joined = sharing_[a], other = sharing_[b];
  for (uint32_t o : *other) {
    joined->push_back(o);
    sharing_[o] = joined;
  }
}

void FrameStore::find_what_runs_change() {
  for (uint32_t n = 0; n < path_.steps().size(); ++n) {
    int32_t object = path_.steps()[n].in_place;
    if (object < 0) continue;
    ValueId first = path_.objects()[static_cast<size_t>(object)].value;
    in_place_steps_.push_back(
        {n, static_cast<uint32_t>(object), first, path_.value(first).flags.requires_grad});
  }
  for (const Path::Part& part : path_.parts())
    if (part.segment)
      given_objects_.insert(given_objects_.end(), part.outputs.begin(), part.outputs.end());
}

// ---- what depends on symbols

bool FrameStore::is_given(uint32_t arg, int32_t element) const {
  return std::ranges::any_of(path_.numbers(), [&](const Path::BodyNumber& number) {
    return number.arg == arg && number.place.element == element;
  });
}

// Parts of another recording have other symbols for the same sizes.
void FrameStore::find_symbols(const Recording& recording) {
  std::vector<const Expr*> exprs;
  const ShapeEnv& env = *recording.shape_env;
  std::vector<Renamed> renamed;
  for (const Path::Part& part : path_.parts()) renamed.emplace_back(*part.graph->shape_env, env);
  auto word_for = [&](Number n, size_t part) {
    const Expr* expr = n.is_symbolic() ? renamed[part](expression_of(n)) : as_expr(n.sym_int());
    ensure(expr, "a symbol of an earlier segment has no source in this recording");
    exprs.push_back(expr);
    return static_cast<uint32_t>(exprs.size() - 1);
  };
  auto add_dims = [&](ValueId id) {
    const GraphValue& value = path_.value(id);
    if (!is_symbolic(value)) return;
    size_t part = path_.part_of(id);
    auto first_word = static_cast<uint32_t>(exprs.size());
    for (SymInt v : value.meta.sizes) word_for(v, part);
    for (SymInt v : value.meta.strides) word_for(v, part);
    word_for(value.offset, part);
    auto n_words = static_cast<uint32_t>(exprs.size()) - first_word;
    symbolic_dims_.push_back({path_.object_of(id), id, first_word, n_words});
  };
  for (const Path::Object& object : path_.objects()) add_dims(object.value);
  for (const InPlaceStep& written : in_place_steps_)
    if (path_.objects()[written.object].is_reshaped)
      add_dims(path_.steps()[written.step].first_result);
  std::ranges::sort(symbolic_dims_, {}, &SymbolicDims::value);
  for (const Path::Step& step : path_.steps()) {
    std::span<const Value> args = path_.args_of(step);
    for (uint32_t i = 0; i < args.size(); ++i) {
      uint32_t place = step.first_arg + i;
      if (args[i].is_number() && args[i].number().is_symbolic() && !is_given(place, -1))
        symbolic_args_.push_back({place, word_for(args[i].number(), step.part), -1});
      if (args[i].tag != Tag::ints) continue;
      for (uint32_t k = 0; k < args[i].count; ++k)
        if (SymInt v = args[i].as<SymInt>()[k];
            v.is_symbolic() && !is_given(place, static_cast<int32_t>(k)))
          symbolic_args_.push_back({place, word_for(v, step.part), static_cast<int32_t>(k)});
    }
  }
  std::vector<const Expr*> symbols = argument_symbols(env);
  for (size_t part = 0; part < path_.parts().size(); ++part) {
    auto& words = symbol_words_.emplace_back();
    for (const SymbolBinding& b : path_.parts()[part].graph->symbols) {
      auto own = std::ranges::find(symbols, renamed[part](b.symbol));
      bool is_computed = own == symbols.end();
      words.push_back({is_computed ? word_for(number_over(b.symbol), part)
                                   : static_cast<uint32_t>(own - symbols.begin()),
                       is_computed});
    }
  }
  program_ = SymProgram::compile(symbols, {}, exprs);
  for (const Path::BodyNumber& number : path_.numbers())
    moves_.push_back(std::ranges::any_of(
        exprs, [&](const Expr* expr) { return contains(expr, symbols[number.word]); }));
}

void FrameStore::set_dims(const Frame& frame, const SymbolicDims& at) const {
  size_t rank = at.n_words / 2;
  const int64_t* word = frame.words.data() + at.first_word;
  replace_metadata(frame.objects[at.object], IntList(word, rank), IntList(word + rank, rank),
                   word[2 * rank]);
}

void FrameStore::lay_out(const Frame& frame, ValueId value) const {
  auto at = std::ranges::lower_bound(symbolic_dims_, value, {}, &SymbolicDims::value);
  if (at != symbolic_dims_.end() && at->value == value) return set_dims(frame, *at);
  const GraphValue& known = path_.value(value);
  replace_metadata(frame.objects[path_.object_of(value)], list_of(known.meta.sizes),
                   list_of(known.meta.strides), known.offset);
}

void FrameStore::lay_out_object(const Frame& frame, uint32_t object) const {
  const Path::Object& known = path_.objects()[object];
  const ValueId now = impl_of(frame.objects[object])->extra->trace_value;
  lay_out(frame, known.is_reshaped ? now : known.value);
}

void FrameStore::set_symbols(Frame& frame, std::span<const int64_t> symbols) const {
  frame.is_usable = false;  // where this throws
  std::vector<int64_t>& words = frame.words;
  std::vector<int64_t>& before = frame.words_before;
  before.resize(program_.n_outputs());
  require(program_.run(symbols, before), "a size of a compiled body overflows");
  bool has_words = !words.empty();
  words.swap(before);
  for (const SymbolicDims& at : symbolic_dims_) {
    auto begin = words.begin() + at.first_word;
    bool is_as_before =
        has_words && std::equal(begin, begin + at.n_words, before.begin() + at.first_word);
    // One that has been laid out anew stays as it lies.
    bool is_now = !path_.objects()[at.object].is_reshaped ||
                  impl_of(frame.objects[at.object])->extra->trace_value == at.value;
    if (!is_as_before && is_now) set_dims(frame, at);
  }
  for (const SymbolicArg& at : symbolic_args_) {
    Value& arg = frame.args[at.arg];
    if (at.element >= 0)
      const_cast<int64_t*>(arg.as<int64_t>())[at.element] = words[at.word];
    else
      arg = Value::make(arg.tag, static_cast<uint64_t>(words[at.word]));
  }
  if (frame.symbols.data() != symbols.data()) frame.symbols.assign(symbols.begin(), symbols.end());
  frame.is_usable = true;
}

// What is given stands among the arguments as it is.
void FrameStore::keep_number(Frame& frame, size_t index, int64_t word) const {
  const Path::BodyNumber& number = path_.numbers()[index];
  frame.numbers[index] = word;
  if (number.arg != Path::no_arg && number.place.element >= 0)
    const_cast<int64_t*>(frame.args[number.arg].as<int64_t>())[number.place.element] = word;
}

bool FrameStore::set_number(Frame& frame, size_t index, int64_t word) const {
  keep_number(frame, index, word);
  int64_t& known = frame.symbols[path_.numbers()[index].word];
  bool moves = std::exchange(known, word) != word && moves_[index];
  if (moves) set_symbols(frame, frame.symbols);
  return moves;
}

// ---- making them

std::unique_ptr<Frame> FrameStore::make() const {
  auto frame = std::make_unique<Frame>();
  frame->id = next_frame.fetch_add(1, std::memory_order_relaxed);
  frame->objects.resize(path_.objects().size());
  for (uint32_t o = 0; o < frame->objects.size(); ++o) add_object(*frame, o);
  mark_arguments(*frame);
  add_arguments(*frame);
  add_args(*frame);
  frame->numbers.resize(path_.numbers().size());
  return frame;
}

// Objects that share memory share a storage.
void FrameStore::add_object(Frame& frame, uint32_t object) const {
  ValueId first = path_.objects()[object].value;
  const GraphValue& value = path_.value(first);
  if (value.kind != ValueKind::tensor || !value.meta.defined) return;
  StorageRef storage;
  if (const auto& sharing = sharing_[object])
    for (uint32_t other : *sharing)
      if (const Tensor& fake = frame.objects[other]; fake.defined())
        storage = impl_of(fake)->storage_ref;
  Tensor& fake = frame.objects[object];
  fake = fake_of(value, std::move(storage));
  TensorExtra& extra = impl_of(fake)->ensure_extra();
  extra.trace_id = frame.id;
  extra.trace_value = first;
}

void FrameStore::add_arguments(Frame& frame) const {
  frame.arguments.clear();
  for (uint32_t object : path_.argument_objects())
    frame.arguments.push_back(object == Path::no_object ? Tensor() : frame.objects[object]);
}

void FrameStore::replace_objects(Frame& frame, std::span<const uint32_t> objects) const {
  frame.arguments.clear();
  for (uint32_t o : objects) frame.objects[o] = Tensor();
  for (uint32_t o : objects) {
    add_object(frame, o);
    if (frame.objects[o].defined()) lay_out(frame, path_.objects()[o].value);
  }
  // The body may have changed what the others need.
  for (auto [object, needs_grad] : needs_of_arguments_)
    if (std::ranges::find(objects, object) != objects.end())
      mark_requires_grad(frame.objects[object], needs_grad);
  add_arguments(frame);
}

void FrameStore::share_with_earlier(Frame& frame, ValueId end) const {
  auto is_earlier = [&](uint32_t o) { return path_.objects()[o].value < end; };
  std::vector<uint32_t> later;
  for (uint32_t o = 0; o < frame.objects.size(); ++o)
    if (!is_earlier(o) && sharing_[o] && std::ranges::any_of(*sharing_[o], is_earlier))
      later.push_back(o);
  if (!later.empty()) replace_objects(frame, later);
}

void FrameStore::add_args(Frame& frame) const {
  auto own_list = [&](Value& arg) {
    bool is_own = std::ranges::any_of(
        frame.lists, [&](const auto& list) { return list.data() == arg.as<int64_t>(); });
    if (is_own) return;
    auto& list = frame.lists.emplace_back(arg.as<int64_t>(), arg.as<int64_t>() + arg.count);
    arg = Value::pointer(Tag::ints, list.data(), list.size());
  };
  for (const Path::Step& step : path_.steps()) {
    const Path::Part& part = path_.parts()[step.part];
    for (Value arg : path_.args_of(step)) {
      if (arg.tag == Tag::ref)
        arg = Value::ref(path_.number_of(part, static_cast<ValueId>(arg.payload)));
      if (arg.tag == Tag::refs) {
        auto& list =
            frame.value_lists.emplace_back(arg.as<ValueId>(), arg.as<ValueId>() + arg.count);
        for (ValueId& v : list) v = v == no_value ? no_value : path_.number_of(part, v);
        arg = Value::pointer(Tag::refs, list.data(), list.size());
      }
      frame.args.push_back(arg);
    }
  }
  for (const SymbolicArg& at : symbolic_args_)
    if (at.element >= 0) own_list(frame.args[at.arg]);
  for (size_t i = 0; i < path_.numbers().size(); ++i) {
    if (path_.numbers()[i].arg == Path::no_arg) continue;
    Value& arg = frame.args[path_.numbers()[i].arg];
    if (path_.numbers()[i].place.element >= 0)
      own_list(arg);
    else
      arg = Value::make(Tag::none, i);
    arg.sub = Frame::body_number;
  }
}

// ---- lending them

std::unique_ptr<Frame> FrameStore::lend(std::span<int64_t> symbols, size_t n_numbers) {
  std::unique_ptr<Frame> frame(spare_.exchange(nullptr, std::memory_order_acquire));
  if (!frame) {
    std::lock_guard lock(frames_lock_);
    if (!frames_.empty()) {
      frame = std::move(frames_.back());
      frames_.pop_back();
    }
  }
  bool is_new = !frame;
  if (is_new) frame = make();
  // What the body has yet to give stays as it was.
  for (size_t i = 0; i < path_.numbers().size(); ++i) {
    const Path::BodyNumber& number = path_.numbers()[i];
    if (i >= n_numbers)
      symbols[number.word] = is_new ? number.example : frame->symbols[number.word];
    keep_number(*frame, i, symbols[number.word]);
  }
  if (is_new || !std::ranges::equal(frame->symbols, symbols)) set_symbols(*frame, symbols);
  return frame;
}

void drop_history(const Tensor& fake) {
  if (!fake.defined()) return;
  TensorImpl* impl = impl_of(fake);
  impl->grad.reset();
  impl->base = Tensor();
  if (impl->flags & TN_T_REQUIRES_GRAD) mark_requires_grad(fake, false);
}

void FrameStore::mark_arguments(Frame& frame) const {
  for (auto [object, needs_grad] : needs_of_arguments_)
    mark_requires_grad(frame.objects[object], needs_grad);
}

void FrameStore::give_back(std::unique_ptr<Frame> frame, size_t steps) {
  if (!frame->is_usable || frame->is_spoiled) return;
  for (const InPlaceStep& written : in_place_steps_) {
    if (written.step >= steps) break;
    const Tensor& t = frame->objects[written.object];
    impl_of(t)->extra->trace_value = written.value;
    if (path_.objects()[written.object].is_reshaped) lay_out(*frame, written.value);
    if (!has_tape_) mark_requires_grad(t, written.requires_grad);
  }
  for (const Path::GivenHistory& given : path_.given_histories()) {
    if (given.step >= steps || has_tape_) break;
    ValueId first = path_.objects()[given.object].value;
    mark_requires_grad(frame->objects[given.object], path_.value(first).flags.requires_grad);
  }
  for (auto [slot, needed_grad] : frame->first_needs)
    mark_requires_grad(frame->objects[path_.object_at({ValueOrigin::Kind::implicit, slot})],
                       needed_grad);
  frame->first_needs.clear();
  for (uint32_t object : given_objects_)
    if (const Tensor& t = frame->objects[object]; t.defined())
      impl_of(t)->extra->concrete = Tensor();
  frame->slots.clear();
  Frame* none = nullptr;
  if (spare_.compare_exchange_strong(none, frame.get(), std::memory_order_release)) {
    frame.release();
    return;
  }
  std::lock_guard lock(frames_lock_);
  constexpr size_t most_kept = 16;
  if (frames_.size() < most_kept) frames_.push_back(std::move(frame));
}

}  // namespace tenon

// Paths out of recordings, and the frames of their runs.
#include "capture/path.h"

#include "core/dispatch.h"
#include "graph/hash.h"
#include "graph/symbol_use.h"

#include <algorithm>
#include <atomic>

namespace tenon {

namespace {

// Numbers of frames and of recorders are numbers of traces: a fake has one.
std::atomic<uint64_t> next_frame{uint64_t{1} << 63};
std::atomic<uint64_t> next_path{0};

// The result is an object that was there before, but not as it was.
bool changes_object(const Recording& recording, const Node& node, uint32_t result) {
  ValueId value = node.first_result + result, previous = recording.values_before[value];
  if (previous == no_value) return false;
  if (node.n_results != 1 || entry_of(node.op).schema.returns_list()) return true;
  const TensorMeta& before = recording.graph->value(previous).meta;
  const TensorMeta& after = recording.graph->value(value).meta;
  auto same = [](const Dims& a, const Dims& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](SymInt x, SymInt y) { return x.word() == y.word(); });
  };
  return before.dtype != after.dtype || !same(before.sizes, after.sizes) ||
         !same(before.strides, after.strides);
}

bool has_body_or_object(const Node& node) {
  return std::ranges::any_of(
      node.args, [](const Value& a) { return a.tag == Tag::graph || a.tag == Tag::opaque; });
}

}  // namespace

bool is_assertion(const Node& node) {
  auto names_none = [](const Value& a) { return a.tag != Tag::ref && a.tag != Tag::refs; };
  return node.n_results == 0 && std::ranges::all_of(node.args, names_none);
}

std::string Path::why_not(const Recording& recording) {
  if (recording.has_graph_breaks()) return "it looks at data";
  if (recording.has_backward) return "it calls backward()";
  if (!recording.log_calls.empty()) return "it calls log functions";
  const Graph& graph = *recording.graph;
  if (!graph.constants().empty()) return "it has constants";
  for (const SymbolInfo& symbol : recording.shape_env->symbols())
    if (!symbol.is_from_input()) return "a size depends on data";
  for (const Node& node : graph.nodes()) {
    const OpEntry& op = entry_of(node.op);
    if (has_body_or_object(node)) return message("{} has a body of its own", op.name);
    if (node.facts.contains("recompute")) return "it has checkpointed regions";
    for (uint32_t r = 0; r < node.n_results; ++r) {
      if (changes_object(recording, node, r))
        return message("{} changes what its argument is", op.name);
      if (ValueKind kind = graph.value(node.first_result + r).kind;
          kind != ValueKind::tensor && kind != ValueKind::none)
        return message("{} reads a number from data", op.name);
    }
  }
  return "";
}

Path::Path(const Recording& recording)
    : graph_(recording.graph),
      n_slots_(recording.implicit.size()),
      number_(next_path.fetch_add(1, std::memory_order_relaxed)) {
  add_objects(recording);
  add_steps();
  add_numbers(recording);
  find_symbols(recording);
}

Path::~Path() { delete spare_.load(); }

void Path::add_objects(const Recording& recording) {
  object_of_.resize(graph_->values().size());
  auto add = [&](ValueId value, ValueOrigin origin) {
    object_of_[value] = static_cast<uint32_t>(objects_.size());
    objects_.push_back({value, origin, 0});
  };
  for (size_t i = 0; i < graph_->inputs().size(); ++i)
    if (ValueId value = graph_->inputs()[i]; graph_->value(value).kind == ValueKind::tensor)
      add(value, recording.inputs[i]);
  const GuardSet& guards = recording.guards;
  for (uint32_t leaf = 0; leaf < guards.tensors.size(); ++leaf) {
    uint32_t first = guards.same_as.empty() ? leaf : guards.same_as[leaf];
    auto found = std::ranges::find_if(objects_, [&](const Object& o) {
      return o.origin.kind == ValueOrigin::Kind::leaf && o.origin.index == first;
    });
    bool is_defined = found != objects_.end();
    if (is_defined) ++found->n_arguments;
    argument_objects_.push_back(is_defined ? static_cast<int32_t>(found - objects_.begin()) : -1);
  }
  for (const Node& node : graph_->nodes())
    for (ValueId value = node.first_result; value < node.first_result + node.n_results; ++value) {
      ValueId before = recording.values_before[value];
      if (before == no_value)
        add(value, {});
      else
        object_of_[value] = object_of_[before];
    }
}

void Path::add_steps() {
  for (NodeId n = 0; n < graph_->nodes().size(); ++n) {
    const Node& node = graph_->node(n);
    const OpEntry& op = entry_of(node.op);
    if (is_assertion(node)) continue;
    bool in_place =
        node.n_results == 1 && objects_[object_of_[node.first_result]].value != node.first_result;
    auto grad = node.facts.find("grad");
    steps_.push_back({&op, n, static_cast<uint32_t>(n_args_),
                      static_cast<uint32_t>(node.args.size()), node.first_result, node.n_results,
                      in_place ? static_cast<int32_t>(object_of_[node.first_result]) : -1,
                      grad == node.facts.end() ? thread_modes.grad_enabled : grad->second == "on"});
    n_args_ += node.args.size();
  }
}

// ---- what depends on symbols

void Path::add_numbers(const Recording& recording) {
  const GuardSet& guards = recording.guards;
  for (uint32_t i = 0; i < recording.number_places.size(); ++i) {
    const NumberPlace& place = recording.number_places[i];
    const Step& step = steps_[place.step];
    const Value& arg = graph_->node(step.node).args[place.arg];
    auto load = std::ranges::find_if(guards.loads, [&](const SymbolLoad& l) {
      return l.kind == SymbolLoad::Kind::body && l.index == i;
    });
    numbers_.push_back(
        {place, step.first_arg + place.arg, static_cast<uint32_t>(load - guards.loads.begin()),
         arg.tag == Tag::ints ? Tag::integer : arg.tag, true, recording.number_words[i]});
  }
}

std::optional<Number> Path::number_at(const NumberPlace& place) const {
  if (place.step >= steps_.size() || steps_[place.step].op->id != place.op) return std::nullopt;
  const Value& arg = graph_->node(steps_[place.step].node).args[place.arg];
  Number found;
  if (place.element < 0 && arg.is_number())
    found = arg.number();
  else if (arg.tag == Tag::ints && static_cast<uint32_t>(place.element) < arg.count)
    found = arg.as<SymInt>()[place.element];
  else
    return std::nullopt;
  return found.is_symbolic() ? std::nullopt : std::optional(found);
}

size_t Path::numbers_before(size_t n) const {
  auto is_before = [n](const BodyNumber& number) { return number.place.step < n; };
  return static_cast<size_t>(std::ranges::count_if(numbers_, is_before));
}

void Path::find_symbols(const Recording& recording) {
  std::vector<const Expr*> exprs;
  auto is_given = [this](uint32_t arg, int32_t element) {
    return std::ranges::any_of(numbers_, [&](const BodyNumber& number) {
      return number.arg == arg && number.place.element == element;
    });
  };
  auto word_for = [&](Number n) {
    exprs.push_back(n.is_symbolic() ? expression_of(n) : as_expr(n.sym_int()));
    return static_cast<uint32_t>(exprs.size() - 1);
  };
  for (uint32_t o = 0; o < objects_.size(); ++o) {
    const GraphValue& value = graph_->value(objects_[o].value);
    auto symbolic = [](const Dims& dims) {
      return std::ranges::any_of(dims, [](SymInt v) { return v.is_symbolic(); });
    };
    if (value.kind != ValueKind::tensor ||
        (!symbolic(value.meta.sizes) && !symbolic(value.meta.strides) &&
         !value.offset.is_symbolic()))
      continue;
    symbolic_dims_.push_back({o, static_cast<uint32_t>(exprs.size())});
    for (SymInt v : value.meta.sizes) word_for(v);
    for (SymInt v : value.meta.strides) word_for(v);
    word_for(value.offset);
  }
  for (size_t n = 0; n < steps_.size(); ++n) {
    std::span<const Value> args = graph_->node(steps_[n].node).args;
    for (uint32_t i = 0; i < args.size(); ++i) {
      uint32_t place = steps_[n].first_arg + i;
      if (args[i].is_number() && args[i].number().is_symbolic() && !is_given(place, -1))
        symbolic_args_.push_back({place, word_for(args[i].number()), -1});
      if (args[i].tag != Tag::ints) continue;
      for (uint32_t k = 0; k < args[i].count; ++k)
        if (SymInt v = args[i].as<SymInt>()[k];
            v.is_symbolic() && !is_given(place, static_cast<int32_t>(k)))
          symbolic_args_.push_back({place, word_for(v), static_cast<int32_t>(k)});
    }
  }
  std::vector<const Expr*> symbols = argument_symbols(*recording.shape_env);
  program_ = SymProgram::compile(symbols, {}, exprs);
  for (BodyNumber& number : numbers_)
    number.is_alone = std::ranges::none_of(
        exprs, [&](const Expr* expr) { return contains(expr, symbols[number.word]); });
}

void Path::set_symbols(Frame& frame, std::span<const int64_t> symbols) const {
  std::vector<int64_t> words(program_.n_outputs());
  require(program_.run(symbols, words), "a size of a compiled body overflows");
  for (const SymbolicDims& at : symbolic_dims_) {
    const Tensor& t = frame.objects[at.object];
    auto rank = static_cast<size_t>(t.dim());
    const int64_t* word = words.data() + at.first_word;
    replace_metadata(t, IntList(word, rank), IntList(word + rank, rank), word[2 * rank]);
  }
  for (const SymbolicArg& at : symbolic_args_) {
    Value& arg = frame.args[at.arg];
    if (at.element >= 0)
      const_cast<int64_t*>(arg.as<int64_t>())[at.element] = words[at.word];
    else
      arg = Value::make(arg.tag, static_cast<uint64_t>(words[at.word]));
  }
  if (frame.symbols.data() != symbols.data()) frame.symbols.assign(symbols.begin(), symbols.end());
}

void Path::set_number(Frame& frame, size_t index, int64_t word) const {
  const BodyNumber& number = numbers_[index];
  frame.numbers[index] = word;
  if (number.place.element >= 0)
    const_cast<int64_t*>(frame.args[number.arg].as<int64_t>())[number.place.element] = word;
  int64_t& known = frame.symbols[number.word];
  if (std::exchange(known, word) != word && !number.is_alone) set_symbols(frame, frame.symbols);
}

// ---- frames

namespace {

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

Frame::Frame(const Path& path) : id(next_frame.fetch_add(1, std::memory_order_relaxed)) {
  std::map<uint32_t, StorageRef> storages;  // by alias group
  for (const Path::Object& object : path.objects_) {
    const GraphValue& value = path.graph_->value(object.value);
    Tensor& fake = objects.emplace_back();
    if (value.kind != ValueKind::tensor || !value.meta.defined) continue;
    StorageRef* shared = value.alias_group ? &storages[value.alias_group] : nullptr;
    fake = fake_of(value, shared ? *shared : StorageRef());
    if (shared) *shared = impl_of(fake)->storage_ref;
    TensorExtra& extra = impl_of(fake)->ensure_extra();
    extra.trace_id = id;
    extra.trace_value = object.value;
  }
  for (int32_t object : path.argument_objects_)
    arguments.push_back(object < 0 ? Tensor() : objects[static_cast<size_t>(object)]);
  for (const Path::Step& step : path.steps_) {
    std::span<const Value> own = path.graph_->node(step.node).args;
    args.insert(args.end(), own.begin(), own.end());
  }
  auto own_list = [this](Value& arg) {
    bool is_own = std::ranges::any_of(
        lists, [&](const auto& list) { return list.data() == arg.as<int64_t>(); });
    if (is_own) return;
    auto& list = lists.emplace_back(arg.as<int64_t>(), arg.as<int64_t>() + arg.count);
    arg = Value::pointer(Tag::ints, list.data(), list.size());
  };
  for (const Path::SymbolicArg& at : path.symbolic_args_)
    if (at.element >= 0) own_list(args[at.arg]);
  numbers.resize(path.numbers_.size());
  for (size_t i = 0; i < path.numbers_.size(); ++i) {
    Value& arg = args[path.numbers_[i].arg];
    if (path.numbers_[i].place.element >= 0)
      own_list(arg);
    else
      arg = Value::make(Tag::none, i);
    arg.sub = Frame::body_number;
  }
}

std::unique_ptr<Frame> Path::lend(std::span<int64_t> symbols, size_t n_numbers) const {
  std::unique_ptr<Frame> frame(spare_.exchange(nullptr, std::memory_order_acquire));
  if (!frame) {
    std::lock_guard lock(frames_lock_);
    if (!frames_.empty()) {
      frame = std::move(frames_.back());
      frames_.pop_back();
    }
  }
  bool is_new = !frame;
  if (is_new) frame = std::make_unique<Frame>(*this);
  // What the body has yet to give stays as it was.
  for (size_t i = 0; i < numbers_.size(); ++i) {
    uint32_t word = numbers_[i].word;
    if (i >= n_numbers) symbols[word] = is_new ? numbers_[i].example : frame->symbols[word];
    frame->numbers[i] = symbols[word];
  }
  if (is_new || !std::ranges::equal(frame->symbols, symbols)) set_symbols(*frame, symbols);
  return frame;
}

void Path::give_back(std::unique_ptr<Frame> frame, size_t steps) const {
  for (size_t i = 0; i < steps; ++i)
    if (steps_[i].in_place >= 0) {
      auto object = static_cast<size_t>(steps_[i].in_place);
      impl_of(frame->objects[object])->extra->trace_value = objects_[object].value;
    }
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

// ---- two paths

namespace {

// Symbols of two recordings stand for the same where they have the same source.
bool same_number(Number a, const ShapeEnv& env_a, Number b, const ShapeEnv& env_b) {
  if (a.kind() != b.kind() || a.is_symbolic() != b.is_symbolic()) return false;
  if (!a.is_symbolic()) return a.word() == b.word();
  return env_a.source_text(expression_of(a)) == env_b.source_text(expression_of(b));
}

bool same_arg(const Value& a, const ShapeEnv& env_a, const Value& b, const ShapeEnv& env_b) {
  if (!a.is_symbolic() || !b.is_symbolic()) return same_argument(a, b);
  if (a.tag != b.tag || a.count != b.count) return false;
  if (a.is_number()) return same_number(a.number(), env_a, b.number(), env_b);
  for (uint32_t i = 0; i < a.count; ++i)
    if (!same_number(a.as<SymInt>()[i], env_a, b.as<SymInt>()[i], env_b)) return false;
  return true;
}

}  // namespace

ValueId Path::values_before(size_t n) const {
  if (n > 0) return steps_[n - 1].first_result + steps_[n - 1].n_results;
  return static_cast<ValueId>(std::ranges::count_if(
      objects_, [](const Object& o) { return o.origin.kind == ValueOrigin::Kind::leaf; }));
}

size_t Path::shared_steps(const Path& other) const {
  std::lock_guard lock(frames_lock_);
  auto [known, is_new] = shared_steps_.try_emplace(other.number_);
  if (is_new) known->second = count_shared_steps(other);
  return known->second;
}

size_t Path::count_shared_steps(const Path& other) const {
  const ShapeEnv &env = *graph_->shape_env, &other_env = *other.graph_->shape_env;
  // Whether the values up to a step's results are numbered alike.
  auto same_value = [&](ValueId v) {
    const GraphValue &a = graph_->value(v), &b = other.graph_->value(v);
    if (a.source != b.source || a.kind != b.kind) return false;
    if (a.source != ValueSource::input) return true;
    const ValueOrigin &x = objects_[object_of_[v]].origin,
                      &y = other.objects_[other.object_of_[v]].origin;
    return x.kind == y.kind && x.index == y.index;
  };
  size_t n = 0;
  ValueId value = 0;
  for (; n < std::min(steps_.size(), other.steps_.size()); ++n) {
    const Step &a = steps_[n], &b = other.steps_[n];
    if (a.op != b.op || a.n_args != b.n_args || a.first_result != b.first_result ||
        a.n_results != b.n_results || a.grad != b.grad)
      break;
    for (; value < a.first_result + a.n_results; ++value)
      if (!same_value(value)) return n;
    std::span<const Value> args = graph_->node(a.node).args,
                           others = other.graph_->node(b.node).args;
    bool same = true;
    for (size_t i = 0; i < args.size() && same; ++i)
      same = same_arg(args[i], env, others[i], other_env);
    if (!same) break;
  }
  return n;
}

}  // namespace tenon

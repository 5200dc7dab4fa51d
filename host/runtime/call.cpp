// What happens on every call of a compiled callable.
#include "runtime/call.h"

#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "config/flags.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "runtime/limits.h"

#include <algorithm>
#include <set>

namespace tenon {

void (*miss_slot)(detail::Site&, const detail::Leaves&, const detail::Body&,
                  detail::CallResult&) = nullptr;
void (*replay_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                    detail::CallResult&) = nullptr;
bool (*verify_slot)(detail::Site&, Entry&, const detail::Leaves&, const detail::Body&,
                    detail::CallResult&) = nullptr;

namespace {

const Tensor& input_tensor(const ValueOrigin& origin, const Entry& e,
                           const detail::Leaves& leaves) {
  if (origin.kind == ValueOrigin::Kind::leaf) return *leaves.tensors[origin.index];
  const ImplicitInput& in = e.implicit[origin.index];
  return in.address ? *in.address : in.tensor;
}

// Words of the symbols and of the numbers computed from them.
struct SymbolWords {
  int64_t local[32];
  std::vector<int64_t> spilled;
  std::span<int64_t> words;
  explicit SymbolWords(size_t n) {
    if (n > 32) spilled.resize(n);
    words = {n > 32 ? spilled.data() : local, n};
  }
};

Number number_of_word(Number like, int64_t word) {
  if (like.is_floating()) return Number(std::bit_cast<double>(word));
  return like.is_boolean() ? Number(word != 0) : Number(word);
}

Number number_in(const Tensor& t) {
  if (t.dtype() == Dtype::f64) return *t.data_ptr<double>();
  return t.dtype() == Dtype::bool_ ? Number(*t.data_ptr<bool>()) : Number(*t.data_ptr<int64_t>());
}

bool like_recorded(const TensorGuard& g, const Tensor& t) {
  GuardSet one;
  one.tensors.push_back(g);
  detail::Leaves leaves;
  leaves.tensors.push(&t);
  one.global = global_state();
  return one.check(leaves);
}

}  // namespace

std::vector<Overlap> Entry::overlaps(const detail::Leaves& leaves) const {
  static const Tensor undefined;
  detail::LeafArray<const Tensor*, 24> tensors;
  for (const ValueOrigin& origin : inputs)
    tensors.push(origin.kind == ValueOrigin::Kind::undefined
                     ? &undefined
                     : &input_tensor(origin, *this, leaves));
  return overlaps_of(tensors.span());
}

bool Entry::serves(const detail::Leaves& leaves) const {
  return guards.check(leaves) && (implicit.empty() || captured_tensors_hold()) &&
         (modes.empty() || modes_hold()) &&
         (without_grad.empty() || gradients_are_missing(leaves)) &&
         (!writes_inputs || overlaps(leaves) == recorded_overlaps) &&
         (excluded.empty() || !excluded_serves(leaves));
}

bool Entry::excluded_serves(const detail::Leaves& leaves) const {
  return std::ranges::any_of(excluded, [&](const Entry* e) { return e->serves(leaves); });
}

std::string Entry::why_not(const detail::Leaves& leaves) const {
  std::string why = guards.why_not(leaves);
  if (!why.empty()) return why;
  if (!gradients_are_missing(leaves)) return "a leaf has a gradient from before";
  if (!modes_hold()) return "a module changed between training and evaluation";
  if (!captured_tensors_hold()) return "a tensor that the body captured was replaced";
  if (excluded_serves(leaves)) return "an older version was made for these arguments";
  return "tensors that the body writes share memory with others differently";
}

bool Entry::captured_tensors_hold() const {
  for (size_t i = 0; i < implicit.size(); ++i) {
    const ImplicitInput& in = implicit[i];
    if (in.address) {
      if (!in.address->is_same(in.tensor) &&
          (!in.address->defined() || !like_recorded(implicit_guards[i], *in.address)))
        return false;
    } else if (in.tensor.head()->references.load(std::memory_order_relaxed) == 1) {
      return false;  // the program has dropped or replaced it
    }
  }
  return true;
}

bool Entry::modes_hold() const {
  return std::ranges::all_of(modes, [](const ReadMode& m) { return *m.mode == m.value; });
}

bool Entry::gradients_are_missing(const detail::Leaves& leaves) const {
  return std::ranges::none_of(without_grad, [&](const ValueOrigin& leaf) {
    return input_tensor(leaf, *this, leaves).grad().defined();
  });
}

// What the body left behind on the tape.
void Entry::leave_gradients(const detail::Leaves& leaves, std::span<Tensor> made,
                            detail::CallResult& result) const {
  for (const GradEffect& effect : grad_effects) {
    const ValueOrigin& g = effect.gradient;
    input_tensor(effect.leaf, *this, leaves)
        .set_grad(g.kind == ValueOrigin::Kind::undefined ? Tensor()
                  : g.kind == ValueOrigin::Kind::graph   ? made[g.index]
                                                         : input_tensor(g, *this, leaves));
  }
  for (size_t i = 0; i < needs_history.size(); ++i) {
    if (!needs_history[i] || !result.tensors[i].defined()) continue;
    auto node = autograd::make_refusing_node(
        "CompiledBodyBackward",
        "a result of a compiled body that calls backward() has no history of its own; detach() it, "
        "or differentiate inside of the body",
        {});
    node->add_input(result.tensors[i]);
    autograd::set_history(result.tensors[i], node, 0);
  }
}

void Entry::run(const detail::Leaves& leaves, detail::CallResult& result) const {
  size_t n_known = guards.loads.size();
  SymbolWords symbols(std::max(n_known, graph ? graph->symbols.size() : 0));
  guards.load(leaves, symbols.words.data());
  std::ranges::fill(symbols.words.subspan(n_known), 0);  // those that the code computes
  constexpr size_t inline_count = 24;
  Tensor local_outputs[inline_count];
  detail::TensorHead* local_inputs[inline_count];
  std::vector<Tensor> more_outputs(n_graph_outputs > inline_count ? n_graph_outputs : 0);
  std::vector<detail::TensorHead*> more_inputs(inputs.size() > inline_count ? inputs.size() : 0);
  Tensor* made = more_outputs.empty() ? local_outputs : more_outputs.data();
  if (artifact) {
    detail::TensorHead** heads = more_inputs.empty() ? local_inputs : more_inputs.data();
    for (size_t i = 0; i < inputs.size(); ++i)
      heads[i] = inputs[i].kind == ValueOrigin::Kind::undefined
                     ? nullptr
                     : input_tensor(inputs[i], *this, leaves).head();
    ModeScope casts_and_passes_are_recorded(
        0, bit(Key::autocast) | (has_backward ? bit(Key::autograd) : 0));
    artifact->call({heads, inputs.size()}, symbols.words, {made, n_graph_outputs});
  }
  if (!log_calls.empty()) run_logs(leaves, {made, n_graph_outputs});
  result.tensors.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueOrigin& origin = outputs[i];
    if (origin.kind == ValueOrigin::Kind::graph)
      result.tensors[i] = std::move(made[origin.index]);
    else if (origin.kind != ValueOrigin::Kind::undefined)
      result.tensors[i] = input_tensor(origin, *this, leaves);
  }
  if (has_backward) leave_gradients(leaves, {made, n_graph_outputs}, result);
  if (!output_numbers.empty()) {
    SymbolWords numbers(output_program.n_outputs());
    ensure(output_program.run(symbols.words.first(n_known), numbers.words),
           "an output number cannot be computed");
    size_t next = 0;
    for (size_t i = 0; i < output_numbers.size(); ++i) {
      Number n = output_numbers[i];
      if (number_outputs[i] >= 0)
        n = number_in(made[number_outputs[i]]);
      else if (n.is_symbolic())
        n = number_of_word(n, numbers.words[next++]);
      result.numbers.push_back(n);
    }
  }
  result.prototype = prototype.get();
}

void Entry::run_logs(const detail::Leaves& leaves, std::span<const Tensor> made) const {
  for (const LogCall& call : log_calls) {
    std::vector<Tensor> tensors;
    for (const ValueOrigin& origin : call.tensors) {
      tensors.emplace_back();
      if (origin.kind == ValueOrigin::Kind::graph)
        tensors.back() = made[origin.index];
      else if (origin.kind != ValueOrigin::Kind::undefined)
        tensors.back() = input_tensor(origin, *this, leaves);
    }
    run_log_fn(call.name, call.text, tensors);
  }
}

void DynamicMemory::Cell::join(int64_t v) {
  if (state == State::unset) {
    state = State::value;
    value = v;
  } else if (state == State::value && value != v) {
    state = State::dynamic;
  }
}

void DynamicMemory::join(const detail::Leaves& leaves) {
  tensors.resize(std::max(tensors.size(), leaves.tensors.size()));
  for (size_t i = 0; i < leaves.tensors.size(); ++i) {
    if (!leaves.tensors[i]->defined()) continue;
    const detail::TensorHead* h = leaves.tensors[i]->head();
    TensorCells& cells = tensors[i];
    auto rank = static_cast<size_t>(h->ndim);
    if (!cells.sizes.empty() && cells.sizes.size() != rank) {
      cells.rank_changed = true;
      cells.sizes.assign(rank, {Cell::State::dynamic, 0});
      cells.strides.assign(rank, {});
    }
    cells.sizes.resize(rank, {cells.rank_changed ? Cell::State::dynamic : Cell::State::unset, 0});
    cells.strides.resize(rank);
    int64_t expected = 1;
    for (size_t d = rank; d-- > 0;) {
      cells.sizes[d].join(h->sizes[d]);
      // A dense stride is not a fact of its own: it follows the sizes.
      cells.strides[d].join(h->strides[d] == expected ? -1 : h->strides[d]);
      expected *= h->sizes[d];
    }
  }
  numbers.resize(std::max(numbers.size(), leaves.numbers.size()));
  for (size_t i = 0; i < leaves.numbers.size(); ++i) numbers[i].join(leaves.numbers[i].word());
}

namespace detail {

namespace {

std::atomic<uint32_t> next_site{0};
std::mutex all_sites_lock;
std::set<Site*>& all_sites() {
  static auto* sites = new std::set<Site*>;
  return *sites;
}

}  // namespace

namespace {

// Options whose names have a point are flags; the others belong to the backend.
config::CompileOptions flags_among(const Options& options) {
  std::string toml;
  for (const auto& [key, value] : options.options) {
    if (key.find('.') != std::string::npos) toml += message("{} = {}\n", key, value);
  }
  return toml.empty() ? nullptr : config::check_options(toml);
}

}  // namespace

Site::Site(Options o)
    : options(std::move(o)), flags(flags_among(options)), number(next_site.fetch_add(1)) {}

Site::Counters& Site::my_counters() {
  static std::atomic<uint32_t> next_thread{0};
  thread_local uint32_t mine = next_thread.fetch_add(1, std::memory_order_relaxed);
  return counters[mine % counters.size()];
}

void Site::add(std::unique_ptr<Entry> entry) {
  uint32_t n = n_entries.load(std::memory_order_relaxed);
  if (n == max_entries) --n;  // the one hit longest ago goes
  for (uint32_t i = n; i > 0; --i)
    order[i].store(order[i - 1].load(std::memory_order_relaxed), std::memory_order_release);
  order[0].store(entry.get(), std::memory_order_release);
  n_entries.store(n + 1, std::memory_order_release);
  entries.push_back(std::move(entry));
}

void Site::move_to_front(size_t from) {
  std::unique_lock lock(changing, std::try_to_lock);
  if (!lock || from >= n_entries.load(std::memory_order_relaxed)) return;
  Entry* hit = order[from].load(std::memory_order_relaxed);
  for (size_t i = from; i > 0; --i)
    order[i].store(order[i - 1].load(std::memory_order_relaxed), std::memory_order_release);
  order[0].store(hit, std::memory_order_release);
}

void Site::evict_last() {
  uint32_t n = n_entries.load(std::memory_order_relaxed);
  if (n > 0) n_entries.store(n - 1, std::memory_order_release);
}

void Site::reset() {
  std::lock_guard lock(changing);
  n_entries.store(0, std::memory_order_release);
  segments.clear();
  memory = {};
  attempts = 0;
  limit_reported = run_only = skipped = false;
  recompile_reasons.clear();
  replay_for_good = false;
}

std::shared_ptr<Site> make_site(const Options& options) {
  std::shared_ptr<Site> site(new Site(options), [](Site* s) {
    {
      std::lock_guard lock(all_sites_lock);
      all_sites().erase(s);
    }
    delete s;
  });
  std::lock_guard lock(all_sites_lock);
  all_sites().insert(site.get());
  return site;
}

// Flag dynamo.error_on_nested_fx_trace. A capture takes inner callables in; other tracers do not.
static void require_nesting_allowed(const Site& site) {
  bool plain_tracer = thread_modes.tracer && !Trace::current();
  require(!plain_tracer || !config::flags().dynamo.error_on_nested_fx_trace,
          "callable {} is compiled and was called while a graph tracer records; call the plain "
          "function, or set dynamo.error_on_nested_fx_trace = false to trace through it",
          display_name(site));
}

void call_site(Site& site, const Leaves& leaves, const Body& body, CallResult& result) {
  // Inside another recording the body is part of the outer graph.
  if (thread_modes.tracer || config::flags().dynamo.disable) {
    require_nesting_allowed(site);
    return body.run_eager(body.context);
  }
  Site::Counters& counters = site.my_counters();
  counters.calls.store(counters.calls.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
  uint32_t n = site.n_entries.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < n; ++i) {
    Entry* entry = site.order[i].load(std::memory_order_acquire);
    if (!entry->serves(leaves)) continue;
    if (i > 0) site.move_to_front(i);
    if (entry->replays) return replay_slot(site, *entry, leaves, body, result);
    if (verify_slot(site, *entry, leaves, body, result)) return;
    counters.hits.store(counters.hits.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
    return entry->run(leaves, result);
  }
  miss_slot(site, leaves, body, result);
}

CallStats site_stats(const Site& site) {
  CallStats out;
  for (const Site::Counters& c : site.counters) {
    out.calls += c.calls.load(std::memory_order_relaxed);
    out.hits += c.hits.load(std::memory_order_relaxed);
  }
  out.compiles = site.compiles;
  out.replays = site.replays;
  out.eager_calls = site.eager_calls;
  out.graph_breaks = site.graph_breaks;
  return out;
}

void reset_site(Site& site) { site.reset(); }

}  // namespace detail

void reset() {
  std::lock_guard lock(detail::all_sites_lock);
  for (detail::Site* site : detail::all_sites()) site->reset();
}

}  // namespace tenon

// Trying ways on made-up operands.
//
// Problem: rules by sizes (which convolution is transformed, which product is cut by rows) are
// those of the machines they were measured on.
//
// Method: each way runs on memory of its own, ways taking turns so that a machine that is busy for
// a while slows all of them; the medians are compared, and another way than that of the rules has
// to win clearly. What is tried is the library call as the graph would make it, epilogue included.
#include "autotune.h"

#include <inductor_runtime/calls/placed.h>
#include <loopir/making/digest.h>
#include "jit.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>

namespace inductor {

using loopir::Id;
using loopir::Program;
using loopir::Way;
using tenon::plugin::text;

namespace {

constexpr const char* way_names[] = {"by rule",     "rows",    "columns", "one thread",
                                     "transformed", "windows", "direct",  "direct in halves"};
static_assert(std::size(way_names) == static_cast<size_t>(loopir::last_way) + 1);

const char* name_of(Way way) { return way_names[static_cast<size_t>(way)]; }

constexpr double seconds_each = 0.02;
constexpr size_t most_rounds = 200;
constexpr double clearly = 0.97;

/// Memory for all that an item reads and writes.
class Operands {
 public:
  Operands(Program& p, const loopir::Item& item) : pointers_(p.buffers.size(), nullptr) {
    loopir::Access access = loopir::access_of(p, item);
    for (const loopir::Ids& ids : {access.reads, access.writes})
      for (Id b : ids)
        if (!pointers_[b]) pointers_[b] = add(p, p.buffers[b]);
  }
  std::span<void* const> pointers() const { return pointers_; }

 private:
  void* add(const Program& p, const loopir::Buffer& b) {
    int64_t elements = 1;
    for (size_t d = 0; d < b.sizes.size(); ++d)
      elements +=
          (p.expressions.evaluate(b.sizes[d], {}) - 1) * p.expressions.evaluate(b.strides[d], {});
    Memory& made = memory_.emplace_back(static_cast<size_t>(std::max<int64_t>(elements, 1)) *
                                        static_cast<size_t>(loopir::item_size(b.dtype)));
    // Bytes of small numbers of every type; what is multiplied is not a subnormal number.
    std::fill_n(made.data(), made.size(), std::byte{0x3c});
    return made.data();
  }

  std::vector<Memory> memory_;
  std::vector<void*> pointers_;
};

/// One way, ready to run.
struct Candidate {
  Way way;
  std::unique_ptr<LibraryCall> call;
  Memory packed;
  std::vector<double> seconds;

  void run(const Operands& operands) {
    auto start = std::chrono::steady_clock::now();
    call->run(operands.pointers(), {}, packed.data());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  double median() {
    auto middle = seconds.begin() + std::ptrdiff_t(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return *middle;
  }
};

template <class Step>
Way fastest(Program& p, Step& step, bool is_constant, const Workers& workers,
            const std::vector<Way>& ways) {
  Operands operands(p, loopir::Item(step));
  std::vector<Step> steps;
  std::vector<Candidate> candidates;
  for (Way way : ways) steps.emplace_back(step).way = way;
  for (const Step& s : steps) {
    Candidate c{s.way, prepare(p, s, is_constant, workers), {}, {}};
    if (!c.call->is_fast({})) continue;
    if (is_constant) c.packed = c.call->pack(operands.pointers(), {});
    c.run(operands);
    candidates.push_back(std::move(c));
  }
  double spent = 0;
  for (Candidate& c : candidates) c.seconds.clear();  // the first runs met cold memory
  for (size_t round = 0;
       round < most_rounds && spent < seconds_each * static_cast<double>(candidates.size());
       ++round)
    for (Candidate& c : candidates) {
      c.run(operands);
      spent += c.seconds.back();
    }
  size_t best = 0;
  for (size_t i = 1; i < candidates.size(); ++i) {
    double limit = candidates[best].median() * (best == 0 ? clearly : 1);
    if (candidates[i].median() < limit) best = i;
  }
  for (Candidate& c : candidates)
    tenon::plugin::log(TN_LOG_INFO, "benchmarking", "{}, {}: {} us, the median of {} runs",
                       step.name, name_of(c.way), c.median() * 1e6, c.seconds.size());
  return candidates[best].way;
}

// ---- what was found

std::mutex guarding_found;
std::map<std::string, Way>& found_ways() {
  static auto& one = *new std::map<std::string, Way>;
  return one;
}

void add_view(const Program& p, const loopir::View& v, std::string& key) {
  Placed placed(p, v, {});
  key += text(" {}", p.buffers[v.buffer].dtype);
  for (int64_t s : placed.sizes) key += text(",{}", s);
  for (int64_t s : placed.strides) key += text(":{}", s);
}
void add_epilogue(const std::vector<loopir::EpilogueOp>& epilogue, std::string& key) {
  for (const loopir::EpilogueOp& op : epilogue) key += text(" e{}", static_cast<int>(op.kind));
}
void add_shape(const Program& p, const loopir::Product& s, std::string& key) {
  for (const loopir::View* v : {&s.left, &s.right, &s.result}) add_view(p, *v, key);
  add_epilogue(s.epilogue, key);
}
void add_shape(const Program& p, const loopir::Convolution& s, std::string& key) {
  for (const loopir::View* v : {&s.source, &s.weights, &s.result}) add_view(p, *v, key);
  for (const auto* list : {&s.stride, &s.padding, &s.dilation})
    for (int64_t n : *list) key += text(" {}", n);
  key += text(" g{} {}", s.groups, s.may_transform);
  add_epilogue(s.epilogue, key);
}

template <class Step>
std::string key_of(const Program& p, const Step& step, bool is_constant, const Workers& workers) {
  std::string key = fingerprint() + text(" threads {} constant {} bias {}", workers.threads(),
                                         is_constant, step.bias.has_value());
  add_shape(p, step, key);
  return key;
}

std::optional<Way> known_way(tn_ctx* ctx, const std::string& key) {
  std::lock_guard lock(guarding_found);
  if (auto at = found_ways().find(key); at != found_ways().end()) return at->second;
  auto bytes = tenon::plugin::cache_get(ctx, "way-" + loopir::digest(key));
  if (!bytes || bytes->size() != 1 ||
      static_cast<uint8_t>(bytes->front()) > static_cast<uint8_t>(loopir::last_way))
    return {};
  return found_ways()[key] = Way(bytes->front());
}

void keep_way(tn_ctx* ctx, const std::string& key, Way way) {
  std::lock_guard lock(guarding_found);
  found_ways()[key] = way;
  tenon::plugin::cache_put(ctx, "way-" + loopir::digest(key),
                           std::string(1, static_cast<char>(way)));
}

template <class Step>
void choose_way(tn_ctx* ctx, Parts& parts, Step& step, bool is_constant) {
  const Workers& workers = parts.options.workers;
  std::vector<Way> ways = prepare(parts.program, step, is_constant, workers)->ways({});
  if (ways.size() < 2) return;
  std::string key = key_of(parts.program, step, is_constant, workers);
  std::optional<Way> way = known_way(ctx, key);
  if (!way) {
    way = fastest(parts.program, step, is_constant, workers, ways);
    keep_way(ctx, key, *way);
  }
  tenon::plugin::log(TN_LOG_INFO, "autotuning", "{}: {} of {} ways", step.name, name_of(*way),
                     ways.size());
  step.way = *way;
  ++parts.statistics.tuned;
}

}  // namespace

void choose_ways(tn_ctx* ctx, Parts& parts, const std::vector<bool>& is_static) {
  if (!parts.program.expressions.symbols.empty()) return;
  std::vector<bool> in_region(parts.schedule.items.size());
  for (const Region& r : parts.regions)
    for (size_t i = r.first; i <= r.last; ++i) in_region[i] = true;
  for (size_t i = 0; i < parts.schedule.items.size(); ++i) {
    loopir::Item& item = parts.schedule.items[i];
    auto is_constant = [&](Id weights) {
      return is_static[weights] && parts.options.packs_weights;
    };
    if (in_region[i] || parts.is_prepacked[i]) continue;
    if (auto* product = std::get_if<loopir::Product>(&item))
      choose_way(ctx, parts, *product, is_constant(product->right.buffer));
    if (auto* convolution = std::get_if<loopir::Convolution>(&item))
      choose_way(ctx, parts, *convolution, is_constant(convolution->weights.buffer));
  }
}

}  // namespace inductor

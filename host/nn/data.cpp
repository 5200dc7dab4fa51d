// The data loader's order of samples and its threads.
//
// Reading ahead: workers take batch numbers from a counter, so a slow batch holds up one of them
// only, and put results into a ring of `workers * ahead` slots by number. A worker whose number is
// a ring ahead of the reader waits; the reader waits for the slot of its number. Order is thus that
// of the numbers, whatever the threads do. When the reader goes, a flag stops the workers and they
// are joined.
#include "core/error.h"
#include "core/random.h"
#include "report/log.h"

#include <tenon/data.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

namespace tenon::data::detail {
namespace {

// Number n of a stream of its own: 64 random bits.
uint64_t random_word(uint64_t seed, uint64_t n) {
  auto words = philox(seed, n);
  return uint64_t{words[0]} << 32 | words[1];
}

// Fisher and Yates. The rest of a division of 64 bits is even enough for numbers of samples.
void shuffle(std::vector<int64_t>& order, uint64_t seed) {
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random_word(seed, left) % left]);
}

uint64_t epoch_seed(const LoaderOptions& options, uint64_t number) {
  if (options.seed) return random_word(*options.seed, number);
  RngState drawn = reserve_random(1);
  return random_word(drawn.seed, drawn.offset);
}

}  // namespace

std::vector<std::vector<int64_t>> random_parts(int64_t samples, IntList lengths,
                                               std::optional<uint64_t> seed) {
  bool fits = std::ranges::all_of(lengths, [](int64_t n) { return n >= 0; });
  require(fits && std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) == samples,
          "random_split: expected lengths that add up to {} samples, found {}", samples, lengths);
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, epoch_seed({.seed = seed}, 0));
  std::vector<std::vector<int64_t>> parts;
  for (auto at = order.begin(); int64_t n : lengths) {
    parts.emplace_back(at, at + n);
    at += n;
  }
  return parts;
}

std::vector<int64_t> lengths_of(int64_t samples, DoubleList fractions) {
  bool fits = std::ranges::all_of(fractions, [](double f) { return f >= 0; });
  double sum = std::accumulate(fractions.begin(), fractions.end(), 0.0);
  require(fits && std::abs(sum - 1) < 1e-9,
          "random_split: expected fractions that add up to 1, found a sum of {}", sum);
  std::vector<int64_t> lengths;
  int64_t left = samples;
  for (double f : fractions) {
    lengths.push_back(std::min(left, static_cast<int64_t>(static_cast<double>(samples) * f)));
    left -= lengths.back();
  }
  for (size_t i = 0; left > 0; ++i, --left) ++lengths[i % lengths.size()];
  return lengths;
}

Epoch::Epoch(int64_t samples, const LoaderOptions& options, uint64_t number) {
  require(options.batch_size > 0, "DataLoader: expected batch_size of 1 or more, found {}",
          options.batch_size);
  require(options.workers >= 0 && options.prefetch > 0,
          "DataLoader: expected workers of 0 or more and prefetch of 1 or more, found {} and {}",
          options.workers, options.prefetch);
  if (samples == 0) return;
  seed_ = epoch_seed(options, number);
  std::vector<int64_t> order(static_cast<size_t>(samples));
  std::iota(order.begin(), order.end(), 0);
  if (options.shuffle) shuffle(order, seed_);
  auto step = static_cast<size_t>(options.batch_size);
  for (size_t begin = 0; begin < order.size(); begin += step) {
    size_t end = std::min(begin + step, order.size());
    if (options.drop_last && end - begin < step) break;
    batches_.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                          order.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

// Far from the numbers of the shuffle, which end at the number of samples.
uint64_t Epoch::seed_of(int64_t index) const {
  return random_word(seed_, ~static_cast<uint64_t>(index));
}

struct Prefetcher::State {
  struct Slot {
    bool ready = false;
    std::shared_ptr<void> value;
    std::exception_ptr error;
  };

  size_t count = 0;
  Make make;
  std::vector<Slot> ring;  // guarded by `lock`, as all below
  std::mutex lock;
  std::condition_variable produced, consumed;
  size_t next_to_make = 0, next_to_give = 0;
  bool stopping = false;
  std::vector<std::thread> threads;

  ~State() {
    {
      std::lock_guard held(lock);
      stopping = true;
    }
    consumed.notify_all();
    for (std::thread& t : threads) t.join();
  }

  // Those that the system gives read; where it gives none, the reader does.
  void start(size_t wanted) {
    try {
      threads.reserve(wanted);
      while (threads.size() < wanted) threads.emplace_back([this] { work(); });
    } catch (const std::exception&) {
      report::warn_once("data loader", "report",
                        message("DataLoader: the system gives no more threads: {} of {} read ahead",
                                threads.size(), wanted));
    }
  }

  void work() {
    std::unique_lock held(lock);
    while (!stopping && next_to_make < count) {
      size_t number = next_to_make++;
      consumed.wait(held, [&] { return stopping || number < next_to_give + ring.size(); });
      if (stopping) return;
      held.unlock();
      Slot made;
      made.ready = true;
      try {
        made.value = make(number);
      } catch (...) {
        made.error = std::current_exception();
      }
      held.lock();
      ring[number % ring.size()] = std::move(made);
      produced.notify_all();
    }
  }
};

Prefetcher::Prefetcher(size_t count, int workers, int ahead, Make make)
    : state_(std::make_unique<State>()) {
  const size_t wanted = std::min(static_cast<size_t>(workers), count);
  state_->count = count;
  state_->make = std::move(make);
  state_->ring.resize(wanted * static_cast<size_t>(ahead));
  state_->start(wanted);
}

Prefetcher::~Prefetcher() = default;

std::shared_ptr<void> Prefetcher::next() {
  State& s = *state_;
  if (s.next_to_give == s.count) return nullptr;
  if (s.threads.empty()) return s.make(s.next_to_give++);
  std::unique_lock held(s.lock);
  State::Slot& slot = s.ring[s.next_to_give % s.ring.size()];
  s.produced.wait(held, [&] { return slot.ready; });
  State::Slot taken = std::exchange(slot, {});
  ++s.next_to_give;
  s.consumed.notify_all();
  if (taken.error) std::rethrow_exception(taken.error);
  return taken.value;
}

std::vector<Tensor> stack_samples(const std::vector<std::vector<Tensor>>& samples) {
  std::vector<Tensor> out;
  for (size_t place = 0; place < samples[0].size(); ++place) {
    std::vector<Tensor> column;
    for (const auto& sample : samples) {
      require(sample.size() == samples[0].size(),
              "DataLoader: samples of a batch have {} and {} tensors; expected one structure",
              samples[0].size(), sample.size());
      column.push_back(sample[place]);
    }
    out.push_back(stack(column));
  }
  return out;
}

}  // namespace tenon::data::detail

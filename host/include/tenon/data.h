// SPDX-License-Identifier: Apache-2.0
// Data sets and loaders: samples by number, in shuffled batches, read ahead by threads.
//
//     data::TensorDataset digits(images, labels);
//     data::DataLoader loader(digits, {.batch_size = 64, .shuffle = true, .seed = 1});
//     for (auto& [x, y] : loader) ...          // one epoch
//
// A data set is any class with `size()` and `get(i)`, where get gives a Tensor, a tuple or a plain
// struct of Tensors (see <tenon/tree.h>); a batch is the same structure with the samples stacked.
// `get(i, seed)` is given a number besides that depends on the loader's seed, the epoch and i: for
// random changes that do not depend on the number of threads. A class with `get_batch(indices)`
// makes whole batches itself.
//
// Threads: with `workers` > 0 the data set is read by several threads at once. The order of the
// batches is the same for any number of workers. An exception of a data set reaches the loop at the
// batch that it belongs to.
#pragma once

#include <tenon/tensor.h>
#include <tenon/tree.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace tenon::data {

template <class D>
concept SeededDataset = requires(const D& d, int64_t i, uint64_t seed) {
  d.size();
  d.get(i, seed);
};
template <class D>
concept BatchDataset = requires(const D& d, const std::vector<int64_t>& indices) {
  d.size();
  d.get_batch(indices);
};
template <class D>
concept Dataset = SeededDataset<D> || BatchDataset<D> || requires(const D& d, int64_t i) {
  d.size();
  d.get(i);
};

/// Rows of tensors that have the same first size.
template <class... T>
class TensorDataset {
  static_assert((std::same_as<T, Tensor> && ...));

 public:
  /// Throws UserError unless all have a first dimension of one size.
  explicit TensorDataset(const T&... tensors) : tensors_(tensors...) {
    (require(tensors.dim() > 0 && tensors.size(0).guard_int() == size(),
             "TensorDataset: expected tensors with {} rows, found {}", size(), tensors),
     ...);
  }
  int64_t size() const {
    const Tensor& first = std::get<0>(tensors_);
    return first.dim() > 0 ? first.size(0).guard_int() : 0;
  }
  std::tuple<T...> get(int64_t i) const {
    return std::apply([i](const auto&... t) { return std::tuple(t.select(0, i)...); }, tensors_);
  }
  std::tuple<T...> get_batch(const std::vector<int64_t>& indices) const {
    Tensor rows = tensor(indices, IntList{static_cast<int64_t>(indices.size())});
    return std::apply([&](const auto&... t) { return std::tuple(t.index_select(0, rows)...); },
                      tensors_);
  }

 private:
  std::tuple<T...> tensors_;
};
template <class... T>
TensorDataset(const T&...) -> TensorDataset<std::conditional_t<true, Tensor, T>...>;

/// Some samples of a data set, in this order. Copies share the data set.
template <Dataset D>
class Subset {
 public:
  Subset(std::shared_ptr<const D> data, std::vector<int64_t> indices)
      : data_(std::move(data)), indices_(std::move(indices)) {}
  int64_t size() const { return static_cast<int64_t>(indices_.size()); }
  auto get(int64_t i) const requires requires(const D& d) { d.get(i); }
  { return data_->get(at(i)); }
  auto get(int64_t i, uint64_t seed) const requires SeededDataset<D> {
    return data_->get(at(i), seed);
  }
  auto get_batch(const std::vector<int64_t>& rows) const requires BatchDataset<D> {
    std::vector<int64_t> chosen;
    for (int64_t i : rows) chosen.push_back(at(i));
    return data_->get_batch(chosen);
  }
  const D& dataset() const { return *data_; }
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  int64_t at(int64_t i) const { return indices_.at(static_cast<size_t>(i)); }
  std::shared_ptr<const D> data_;
  std::vector<int64_t> indices_;
};

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;  ///< leave out a last batch that is smaller
  int workers = 0;         ///< threads that read ahead; 0: the loop reads
  int prefetch = 2;        ///< batches that each of them is ahead at most
  /// Of the order and of what get(i, seed) is given; unset: drawn from <tenon/random.h> when an
  /// epoch begins, so that manual_seed() decides.
  std::optional<uint64_t> seed = {};
};

namespace detail {

/// The samples of each part, in random order. Throws UserError unless the lengths add up to them.
TENON_API std::vector<std::vector<int64_t>> random_parts(int64_t samples, IntList lengths,
                                                         std::optional<uint64_t> seed);
/// Lengths from fractions; what is left over goes to the first ones, one each. Throws UserError unless
/// the fractions add up to 1.
TENON_API std::vector<int64_t> lengths_of(int64_t samples, DoubleList fractions);

/// The order of one epoch, cut into batches.
class TENON_API Epoch {
 public:
  /// Throws UserError for options that make no sense.
  Epoch(int64_t samples, const LoaderOptions& options, uint64_t number);
  size_t n_batches() const { return batches_.size(); }
  const std::vector<int64_t>& indices(size_t batch) const { return batches_[batch]; }
  uint64_t seed_of(int64_t index) const;

 private:
  uint64_t seed_ = 0;
  std::vector<std::vector<int64_t>> batches_;
};

/// Calls `make` for 0 <= i < count, in threads that are at most `ahead` results before the reader,
/// and gives the results in order. Ends its threads when it goes.
class TENON_API Prefetcher {
 public:
  using Make = std::function<std::shared_ptr<void>(size_t)>;
  Prefetcher(size_t count, int workers, int ahead, Make make);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  /// The next result; empty after the last one. Rethrows what `make` threw for it.
  std::shared_ptr<void> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Collects the tensors of a sample.
struct TensorCollector {
  std::vector<Tensor>& tensors;
  void tensor(const Tensor& t) { tensors.push_back(t); }
  void fields(const auto&... e) { (tenon::detail::visit_tree(e, *this), ...); }
  template <class T>
  void number(const T&) {
    static_assert(!sizeof(T), "samples are made of tensors: write full({}, value) for a number");
  }
  template <class T>
  void sym(const T& v) {
    number(v);
  }
  template <class T>
  void text(const T& v) {
    number(v);
  }
  void shape(uint64_t) {}
};
struct TensorPlacer {
  const Tensor* next;
  void tensor(Tensor& t) { t = *next++; }
  void fields(auto&... e) { (tenon::detail::visit_tree(e, *this), ...); }
  void shape(uint64_t) {}
};
/// Stacks what the samples have at each place. Throws UserError where they differ in structure.
TENON_API std::vector<Tensor> stack_samples(const std::vector<std::vector<Tensor>>& samples);

template <class D>
auto make_sample(const D& data, int64_t i, [[maybe_unused]] uint64_t seed) {
  if constexpr (SeededDataset<D>)
    return data.get(i, seed);
  else
    return data.get(i);
}

template <class D>
auto make_batch(const D& data, const Epoch& epoch, size_t batch) {
  const std::vector<int64_t>& indices = epoch.indices(batch);
  if constexpr (BatchDataset<D>) {
    return data.get_batch(indices);
  } else {
    auto first = make_sample(data, indices[0], epoch.seed_of(indices[0]));
    std::vector<std::vector<Tensor>> samples(indices.size());
    TensorCollector of_first{samples[0]};
    tenon::detail::visit_tree(std::as_const(first), of_first);
    for (size_t i = 1; i < indices.size(); ++i) {
      auto sample = make_sample(data, indices[i], epoch.seed_of(indices[i]));
      TensorCollector collector{samples[i]};
      tenon::detail::visit_tree(std::as_const(sample), collector);
    }
    std::vector<Tensor> stacked = stack_samples(samples);
    TensorPlacer placer{stacked.data()};
    tenon::detail::visit_tree(first, placer);
    return first;
  }
}

}  // namespace detail

/// Goes through a data set in batches; each `begin()` starts an epoch. Copies the data set, which
/// for tensors means the handles. Used by one thread at a time.
template <Dataset D>
class DataLoader {
 public:
  using Batch =
      decltype(detail::make_batch(std::declval<const D&>(), std::declval<detail::Epoch&>(), 0));

  explicit DataLoader(D data, const LoaderOptions& options = {})
      : data_(std::make_shared<D>(std::move(data))), options_(options) {
    detail::Epoch check(0, options_, 0);
  }

  /// Batches of an epoch.
  int64_t size() const {
    int64_t samples = static_cast<int64_t>(data_->size()), b = options_.batch_size;
    return options_.drop_last ? samples / b : (samples + b - 1) / b;
  }
  const D& dataset() const { return *data_; }

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    Iterator(std::shared_ptr<const D> data, const LoaderOptions& options, uint64_t epoch_number) {
      auto epoch = std::make_shared<detail::Epoch>(static_cast<int64_t>(data->size()), options,
                                                   epoch_number);
      auto make = [data = std::move(data), epoch](size_t i) -> std::shared_ptr<void> {
        return std::make_shared<Batch>(detail::make_batch(*data, *epoch, i));
      };
      batches_ = std::make_shared<detail::Prefetcher>(epoch->n_batches(), options.workers,
                                                      options.prefetch, std::move(make));
      ++*this;
    }
    Batch& operator*() const { return *current_; }
    Batch* operator->() const { return current_.get(); }
    Iterator& operator++() {
      current_ = std::static_pointer_cast<Batch>(batches_->next());
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !current_; }

   private:
    std::shared_ptr<detail::Prefetcher> batches_;
    std::shared_ptr<Batch> current_;
  };
  Iterator begin() { return Iterator(data_, options_, next_epoch_++); }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<const D> data_;
  LoaderOptions options_;
  uint64_t next_epoch_ = 0;
};

/// Parts of these lengths with samples in random order. The seed is drawn from <tenon/random.h> unless
/// it is given.
///
///     auto [train, test] = data::random_split(digits, {50000, 10000});
///     data::DataLoader loader(train, {.batch_size = 64, .shuffle = true});
template <Dataset D, size_t N>
std::array<Subset<D>, N> random_split(D data, const int64_t (&lengths)[N],
                                      std::optional<uint64_t> seed = {}) {
  auto shared = std::make_shared<const D>(std::move(data));
  auto parts = detail::random_parts(static_cast<int64_t>(shared->size()), {lengths, N}, seed);
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return std::array<Subset<D>, N>{Subset<D>(shared, std::move(parts[i]))...};
  }
  (std::make_index_sequence<N>());
}
/// The same with fractions: random_split(digits, {0.9, 0.1}).
template <Dataset D, std::same_as<double> T, size_t N>
std::array<Subset<D>, N> random_split(D data, const T (&fractions)[N],
                                      std::optional<uint64_t> seed = {}) {
  auto found = detail::lengths_of(static_cast<int64_t>(data.size()), {fractions, N});
  int64_t lengths[N];
  std::copy(found.begin(), found.end(), lengths);
  return random_split(std::move(data), lengths, seed);
}

}  // namespace tenon::data

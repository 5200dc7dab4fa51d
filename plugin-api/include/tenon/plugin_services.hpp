// SPDX-License-Identifier: Apache-2.0
// tenon/plugin_services.hpp - part of <tenon/plugin.hpp>: options, threads, progress, stored bytes.
#pragma once

#include <tenon/plugin.hpp>

#include <atomic>
#include <concepts>

namespace tenon::plugin {

/// Typed getters over the resolved options of a request and the host's flags.
class options {
 public:
  explicit options(const tn_compile_request& rq) : options_(rq.options), ctx_(rq.ctx) {}

  /// T is bool, int64_t, double, std::string_view or std::string (strings and enums), or
  /// std::vector<std::string>.
  template <class T>
  T get(std::string_view key) const {
    if constexpr (std::same_as<T, bool>)
      return read<int32_t>(host->opt->get_bool, options_, key);
    else if constexpr (std::same_as<T, int64_t>)
      return read<T>(host->opt->get_i64, options_, key);
    else if constexpr (std::same_as<T, double>)
      return read<T>(host->opt->get_f64, options_, key);
    else if constexpr (std::same_as<T, std::vector<std::string>>)
      return as_strings(list(key));
    else
      return T(sv(read<tn_str>(host->opt->get_str, options_, key)));
  }
  std::vector<std::string_view> list(std::string_view key) const {
    const tn_str* items = nullptr;
    uint32_t n = 0;
    check(host->opt->get_list(options_, str(key), &items, &n));
    std::vector<std::string_view> out;
    for (uint32_t i = 0; i < n; ++i) out.push_back(sv(items[i]));
    return out;
  }
  /// The position of an enum's value among its choices.
  size_t choice(std::string_view key, std::initializer_list<std::string_view> choices) const {
    auto at = std::find(choices.begin(), choices.end(), get<std::string_view>(key));
    return static_cast<size_t>(at - choices.begin());
  }
  /// A flag of the host ("functorch.activation_memory_budget"); the key joins the cache key.
  template <class T>
  T config(std::string_view key) const {
    if constexpr (std::same_as<T, bool>)
      return read<int32_t>(host->opt->config_bool, ctx_, key);
    else if constexpr (std::same_as<T, int64_t>)
      return read<T>(host->opt->config_i64, ctx_, key);
    else if constexpr (std::same_as<T, double>)
      return read<T>(host->opt->config_f64, ctx_, key);
    else
      return sv(read<tn_str>(host->opt->config_str, ctx_, key));
  }

 private:
  static std::vector<std::string> as_strings(const std::vector<std::string_view>& items) {
    return {items.begin(), items.end()};
  }
  template <class T, class F, class Where>
  static T read(F get, Where where, std::string_view key) {
    T out{};
    check(get(where, str(key), &out));
    return out;
  }
  const tn_options* options_;
  tn_ctx* ctx_;
};

namespace detail {

/// Carries the first exception of parallel bodies to the thread that waits for them.
template <class F>
struct parallel_job {
  F& body;
  std::atomic<bool> failed{false};
  std::exception_ptr first = nullptr;

  template <class A, class B>
  static tn_status* run(void* self, A a, B b) noexcept {
    auto& job = *static_cast<parallel_job*>(self);
    try {
      job.body(a, b);
      return nullptr;
    } catch (...) {
      if (!job.failed.exchange(true)) job.first = std::current_exception();
      return new_status(TN_ABORTED, "a parallel body threw");
    }
  }
  void finish(tn_status* status) {
    if (!first) return check(status);
    if (status) host->status_free(status);
    std::rethrow_exception(first);
  }
};

}  // namespace detail

/// body(lo, hi) over slices of [begin, end) on the host's threads; what one throws is thrown here.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, F&& body) {
  using job_type = detail::parallel_job<std::remove_reference_t<F>>;
  job_type job{body};
  auto run = job_type::template run<int64_t, int64_t>;
  job.finish(host->svc->parallel_for(begin, end, grain, run, &job));
}

/// body(chunk, worker) once for each chunk; worker < num_threads() has one chunk at a time.
template <class F>
void parallel_chunks(int64_t n_chunks, F&& body) {
  using job_type = detail::parallel_job<std::remove_reference_t<F>>;
  job_type job{body};
  auto run = job_type::template run<int64_t, int32_t>;
  job.finish(host->svc->parallel_chunks(n_chunks, run, &job));
}

/// Tells how far a compile is; throws TN_CANCELLED when the user wants it to stop.
inline void progress(tn_ctx* ctx, double fraction, std::string_view what) {
  if (TN_HAS(host->svc, progress) && host->svc->progress(ctx, fraction, str(what)))
    throw error(TN_CANCELLED, "cancelled");
}

/// Bytes stored by an earlier process under the plugin's version and fingerprint.
inline std::optional<std::string> cache_get(tn_ctx* ctx, std::string_view key) {
  tn_blob* blob = nullptr;
  if (!TN_HAS(host->svc, cache_get)) return std::nullopt;
  if (tn_status* miss = host->svc->cache_get(ctx, str(key), &blob)) {
    host->status_free(miss);
    return std::nullopt;
  }
  std::string bytes(sv(host->svc->blob_bytes(blob)));
  host->svc->blob_release(blob);
  return bytes;
}
inline void cache_put(tn_ctx* ctx, std::string_view key, std::string_view bytes) {
  if (TN_HAS(host->svc, cache_put))
    check(host->svc->cache_put(ctx, str(key), bytes.data(), bytes.size()));
}

/// A table offered by the host or another plugin, or null.
template <class Table>
const Table* extension(const char* id, uint32_t min_version) {
  return static_cast<const Table*>(host->extension(id, min_version));
}

}  // namespace tenon::plugin

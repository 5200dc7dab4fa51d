// Options and services for plugins: typed options, flags, memory, threads, log, trace.
#include "backend/abi/bridge.h"
#include "backend/abi/compile_context.h"
#include "backend/abi/status.h"
#include "backend/compile/plugin_cache.h"
#include "backend/life/load.h"
#include "config/config.h"
#include "core/random.h"
#include "core/tensor/allocator.h"
#include "core/threads/thread_pool.h"
#include "report/dumps.h"
#include "report/events.h"
#include "report/log.h"
#include "report/log_names.h"

#include <tenon/config.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <set>

namespace tenon {

namespace {

tn_status* not_found(std::string_view what, tn_str key) {
  return make_status(TN_NOT_FOUND,
                     message("{} {} is not declared, or of another type", what, view_of(key)));
}

template <class T>
const T* option(const tn_options* options, tn_str key) {
  auto found = options->values.find(view_of(key));
  return found == options->values.end() ? nullptr : std::get_if<T>(&found->second);
}

template <class T, class Out>
tn_status* get_option(const tn_options* options, tn_str key, Out* out) {
  const T* value = option<T>(options, key);
  if (!value) return not_found("option", key);
  if constexpr (std::is_same_v<T, std::string>)
    *out = str_of(*value);
  else
    *out = static_cast<Out>(*value);
  return nullptr;
}

tn_status* get_f64(const tn_options* options, tn_str key, double* out) {
  if (const auto* whole = option<int64_t>(options, key)) {
    *out = static_cast<double>(*whole);
    return nullptr;
  }
  return get_option<double>(options, key, out);
}

tn_status* get_list(const tn_options* options, tn_str key, const tn_str** items, uint32_t* n) {
  return guarded([&] {
    const auto* value = option<std::vector<std::string>>(options, key);
    if (!value)
      throw BackendError(ErrorCode::invalid_argument, TN_NOT_FOUND,
                         "the option is not declared as a list");
    auto& views = options->lists[std::string(view_of(key))];
    views.clear();
    for (const std::string& s : *value) views.push_back(str_of(s));
    *items = views.data();
    *n = static_cast<uint32_t>(views.size());
  });
}

// Texts that were given out where no compilation keeps them, each once.
const std::string& kept_text(std::string text) {
  static auto* const lock = new std::mutex;
  static auto* const texts = new std::set<std::string>;
  std::lock_guard held(*lock);
  return *texts->insert(std::move(text)).first;
}

void note_read(tn_ctx& ctx, std::string_view key, const config::Value& value) {
  if (std::ranges::find(ctx.flags_read, key, &FlagRead::key) == ctx.flags_read.end())
    ctx.flags_read.push_back({std::string(key), config::value_text(value)});
}

// A flag of the host; code that is kept on disk serves only where those that were read are the same.
template <class T, class Out>
tn_status* get_flag(tn_ctx* ctx, tn_str key, Out* out) {
  return guarded([&] {
    T value = config::get_as<T>(view_of(key));
    if (ctx) note_read(*ctx, view_of(key), value);
    if constexpr (!std::is_same_v<T, std::string>)
      *out = static_cast<Out>(value);
    else if (ctx)
      *out = str_of(ctx->strings.emplace_back(std::move(value)));
    else
      *out = str_of(kept_text(std::move(value)));
  });
}

report::LogLevel level_of(int32_t level) {
  switch (level) {
    case TN_LOG_TRACE:
      return report::LogLevel::trace;
    case TN_LOG_DEBUG:
      return report::LogLevel::debug;
    case TN_LOG_INFO:
      return report::LogLevel::info;
    case TN_LOG_WARN:
      return report::LogLevel::warning;
    default:
      return report::LogLevel::error;
  }
}

std::string component_name(const char* component) {
  return std::string("plugin.") + (component ? component : "");
}

// A component with the name of a log artifact is that artifact, but for warnings and errors.
bool is_artifact(int32_t level, const char* component) {
  return level <= TN_LOG_INFO && component && report::find_log_artifact(component);
}

void log_line(int32_t level, const char* component, const char* text, size_t n) {
  if (is_artifact(level, component)) return report::log_artifact(component, {text, n});
  report::log_line(level_of(level), component_name(component), {text, n});
}

int32_t asked_log_level(const char* component) {
  bool as_artifact = is_artifact(TN_LOG_INFO, component);
  if (as_artifact && report::artifact_enabled(component)) return TN_LOG_INFO;
  std::string name = component_name(component);
  for (int32_t level = as_artifact ? TN_LOG_WARN : TN_LOG_TRACE; level < TN_LOG_CRITICAL; ++level)
    if (report::log_enabled(level_of(level), name)) return level;
  return TN_LOG_CRITICAL;
}

// What a thread was told last holds for the flags of then: code that runs often asks at each call
// about the same component.
int32_t log_level(const char* component) {
  struct Answer {
    uint64_t serial = 0;
    int32_t level = TN_LOG_CRITICAL;
    char component[32] = {};
  };
  static thread_local Answer last;
  try {
    uint64_t serial = config::flags().serial;
    std::string_view name = component ? component : "";
    if (serial == last.serial && name == last.component) return last.level;
    last = {serial, asked_log_level(component)};
    bool is_kept = !name.empty() && name.size() < sizeof last.component;
    if (is_kept) name.copy(last.component, name.size());
    return last.level;
  } catch (const std::exception&) {
    return asked_log_level(component);
  }
}

// Bodies run on other threads on behalf of the plugin that this one is in.
class OnBehalf {
 public:
  OnBehalf() : life_(is_counting_held() ? InPlugin::current() : nullptr) {}
  template <class F>
  tn_status* operator()(F&& body) const {
    if (!life_) return body();
    InPlugin in(*life_);
    return body();
  }

 private:
  PluginLife* life_;
};

/// The first failing body wins; those that have not begun by then are left out.
class Bodies {
 public:
  /// `body` is a function of the plugin: what it throws is a failure too.
  template <class Body>
  void run(Body body) {
    if (first_.load(std::memory_order_relaxed)) return;
    tn_status* failed = nullptr;
    tn_status* thrown = guarded([&] { failed = body(); });
    if (tn_status* status = thrown ? thrown : failed) keep(status);
  }
  /// After all bodies: what failed first, or what kept the pool from running them.
  tn_status* finish(tn_status* of_pool) {
    if (of_pool) keep(of_pool);
    return first_.exchange(nullptr);
  }

 private:
  void keep(tn_status* status) {
    tn_status* none = nullptr;
    if (!first_.compare_exchange_strong(none, status)) free_status(status);
  }
  std::atomic<tn_status*> first_{nullptr};
};

tn_status* parallel_for_bridge(int64_t begin, int64_t end, int64_t grain,
                               tn_status* (*body)(void*, int64_t, int64_t), void* user) {
  OnBehalf on_behalf;
  Bodies bodies;
  return bodies.finish(guarded([&] {
    parallel_for(begin, end, std::max<int64_t>(grain, 1), [&](int64_t lo, int64_t hi) {
      bodies.run([&] { return on_behalf([&] { return body(user, lo, hi); }); });
    });
  }));
}

tn_status* parallel_chunks_bridge(int64_t n_chunks, tn_status* (*body)(void*, int64_t, int32_t),
                                  void* user) {
  OnBehalf on_behalf;
  Bodies bodies;
  return bodies.finish(guarded([&] {
    parallel_chunks(n_chunks, [&](int64_t chunk, int worker) {
      bodies.run([&] { return on_behalf([&] { return body(user, chunk, worker); }); });
    });
  }));
}

void* alloc(size_t bytes, size_t align) {
  if (align > host_alignment) return nullptr;
  try {
    return allocate(bytes);
  } catch (...) {
    return nullptr;
  }
}

// Empty where nobody wants dumps.
tn_str debug_dir(tn_ctx* ctx) {
  if (!ctx || !ctx->request || !report::dumps_wanted()) return {"", 0};
  return str_of(ctx->strings.emplace_back(report::dump_folder(ctx->request->compile_id)));
}

// One generator serves all devices, so that a seed gives the same numbers on each.
tn_status* rng_reserve(int32_t device_type, int32_t, uint64_t n, uint64_t* seed, uint64_t* offset) {
  return guarded([&] {
    require(device_type != TN_DEV_META, "there is no generator for device type {}", device_type);
    RngState state = reserve_random(n);
    *seed = state.seed;
    *offset = state.offset;
  });
}

}  // namespace

const tn_opt_api opt_api = {
    .struct_size = sizeof(tn_opt_api),
    .get_bool = [](const tn_options* o, tn_str k,
                   int32_t* out) { return get_option<bool>(o, k, out); },
    .get_i64 = [](const tn_options* o, tn_str k,
                  int64_t* out) { return get_option<int64_t>(o, k, out); },
    .get_f64 = get_f64,
    .get_str = [](const tn_options* o, tn_str k,
                  tn_str* out) { return get_option<std::string>(o, k, out); },
    .get_list = get_list,
    .config_bool = [](tn_ctx* c, tn_str k, int32_t* out) { return get_flag<bool>(c, k, out); },
    .config_i64 = [](tn_ctx* c, tn_str k, int64_t* out) { return get_flag<int64_t>(c, k, out); },
    .config_f64 = [](tn_ctx* c, tn_str k, double* out) { return get_flag<double>(c, k, out); },
    .config_str = [](tn_ctx* c, tn_str k, tn_str* out) { return get_flag<std::string>(c, k, out); },
};

const tn_svc_api svc_api = {
    .struct_size = sizeof(tn_svc_api),
    .log = log_line,
    .log_level = log_level,
    .alloc = alloc,
    .free = [](void* p, size_t bytes, size_t) { deallocate(p, bytes); },
    .num_threads = [] { return static_cast<int32_t>(num_threads()); },
    .parallel_for = parallel_for_bridge,
    .cache_get = cache_get,
    .cache_put = cache_put,
    .blob_bytes = blob_bytes,
    .blob_release = blob_release,
    .progress = [](tn_ctx*, double, tn_str) -> int32_t { return 0; },
    .trace_on = [] { return static_cast<int32_t>(report::tracing()); },
    .trace =
        [](int32_t phase, tn_str category, tn_str name, tn_str args_json) {
          if (!report::tracing() || phase < TN_TRACE_BEGIN || phase > TN_TRACE_COUNTER) return;
          report::EventArg args("args", view_of(args_json));
          report::detail::emit(static_cast<report::Phase>(phase), view_of(name), view_of(category),
                               {}, {&args, 1});
        },
    .rng_reserve = rng_reserve,
    .debug_dir = debug_dir,
    .parallel_chunks = parallel_chunks_bridge,
};

}  // namespace tenon

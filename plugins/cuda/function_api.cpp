// Recorded functions in the extension's table: each slot is one call.
#include "function_api.h"

#include <tenon/plugin.hpp>

#include "trees/again.h"
#include "trees/function.h"

#include <set>

struct tn_cuda_function {
  explicit tn_cuda_function(const tn_cuda_function_info& info) : function(info) {}
  tenon::cuda::trees::Function function;
};

namespace tenon::cuda {

namespace {

using plugin::barrier;
using plugin::sv;
using plugin::text;

/// All functions that there are, for reports.
struct Functions {
  std::mutex listing;  // guards all
  std::set<tn_cuda_function*> all;
};

Functions& functions() {
  static auto* const instance = new Functions;
  return *instance;
}

tn_status* function_new(const tn_cuda_function_info* info, tn_cuda_function** out) {
  return barrier([&] {
    auto made = std::make_unique<tn_cuda_function>(*info);
    std::lock_guard lock(functions().listing);
    functions().all.insert(made.get());
    *out = made.release();
  });
}
tn_status* function_run(tn_cuda_function* f, tn_call* call) {
  return barrier([&] { f->function.run(*call); });
}
void function_drop(tn_cuda_function* f) {
  if (!f) return;
  {
    std::lock_guard lock(functions().listing);
    functions().all.erase(f);
  }
  plugin::detail::quietly("cuda", [&] { delete f; });
}

void write(const tn_sink* sink, const std::string& json) {
  sink->write(sink->ctx, json.data(), json.size());
}
tn_status* function_describe(tn_cuda_function* f, const tn_sink* sink) {
  return barrier([&] { write(sink, f->function.describe()); });
}

std::string arenas_json() {
  std::string out;
  for (trees::Manager* m : trees::Manager::all())
    out += text("{}{\"device\": {}, \"mapped_bytes\": {}, \"live_bytes\": {}}",
                out.empty() ? "" : ", ", m->gpu().index(), m->arena().mapped_bytes(),
                m->arena().live_bytes());
  return out;
}
tn_status* describe_functions(const tn_sink* sink) {
  return barrier([&] {
    std::string list;
    std::lock_guard lock(functions().listing);
    for (tn_cuda_function* f : functions().all)
      list += (list.empty() ? "" : ", ") + f->function.describe();
    write(sink, text("{\"functions\": [{}], \"arenas\": [{}], \"skips\": {}}", list, arenas_json(),
                     trees::skips_json()));
  });
}

void mark_step() { trees::mark_step(); }
void begin_call() { trees::begin_call(); }
void note_skip(const tn_cuda_skip* skip) {
  plugin::detail::quietly("cuda", [&] {
    trees::note_skip(std::string(sv(skip->function)),
                     {std::string(sv(skip->reason)), std::string(sv(skip->sentence))},
                     std::string(sv(skip->node)), std::string(sv(skip->source)));
  });
}

tn_status* reset_functions() {
  return barrier([&] {
    std::lock_guard lock(functions().listing);
    for (tn_cuda_function* f : functions().all) f->function.reset();
    for (trees::Manager* m : trees::Manager::all()) {
      m->gpu().synchronize();
      m->arena().trim();
    }
  });
}

tn_status* check_result(uint64_t storage_id) {
  return barrier([&] { trees::check_result(storage_id); });
}

int32_t is_recording(tn_stream* stream) { return trees::Recording::is_under_way(stream); }
tn_status* note_foreign_work(tn_stream* stream, void* const* addresses, uint32_t n) {
  return barrier([&] {
    if (trees::Recording::is_under_way(stream))
      trees::Recording::current()->note_foreign_work({addresses, n});
  });
}
tn_status* mark_place(tn_stream* stream, uint32_t* place) {
  return barrier([&] {
    bool is_recorded = trees::Recording::is_under_way(stream);
    *place = is_recorded ? trees::Recording::current()->mark_place() : 0;
  });
}
tn_status* continue_from(tn_stream* stream, const uint32_t* places, uint32_t n) {
  return barrier([&] {
    if (trees::Recording::is_under_way(stream))
      trees::Recording::current()->continue_from({places, n});
  });
}
tn_status* enter_stream(tn_stream* stream) {
  return barrier([&] { trees::StreamUse::hold(stream); });
}
void leave_stream(tn_stream* stream) { trees::StreamUse::let_go(stream); }
tn_status* reserve_random(int32_t dev, tn_stream* stream, uint64_t n, uint64_t* seed,
                          uint64_t* offset) {
  return barrier([&] {
    trees::Draw draw = trees::reserve_random(gpu_at(dev), stream, n);
    *seed = draw.seed;
    *offset = draw.offset;
  });
}

}  // namespace

void add_function_api(tn_cuda_api& t) {
  t.function_new = function_new;
  t.function_run = function_run;
  t.function_drop = function_drop;
  t.function_describe = function_describe;
  t.mark_step = mark_step;
  t.begin_call = begin_call;
  t.note_skip = note_skip;
  t.describe_functions = describe_functions;
  t.reset_functions = reset_functions;
  t.overwritten_results = trees::overwritten_results();
  t.check_result = check_result;
  t.is_recording = is_recording;
  t.note_foreign_work = note_foreign_work;
  t.reserve_random = reserve_random;
  t.mark_place = mark_place;
  t.continue_from = continue_from;
  t.enter_stream = enter_stream;
  t.leave_stream = leave_stream;
}

}  // namespace tenon::cuda

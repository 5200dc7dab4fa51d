// What user code calls while it is recorded: looking at data, breaks, disabled regions, marks.
#include "capture/body_scope.h"
#include "capture/errors/error_of_run.h"
#include "capture/follow/follow.h"
#include "capture/follow/memory_of_run.h"
#include "capture/lazy_numbers.h"
#include "capture/outside.h"
#include "capture/tape/views_outside.h"
#include "capture/trace.h"
#include "config/flags.h"
#include "core/device/device_memory.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/kernels/pointwise_loop.h"
#include "core/random.h"
#include "core/sym/shape_env.h"
#include "core/tensor/exposure.h"
#include "core/tensor/owner_thread.h"
#include "core/tensor/tensor_impl.h"
#include "nn/mode.h"
#include "report/dumps.h"

#include <tenon/compiler.h>
#include <tenon/nested_region.h>
#include <tenon/ops/copy.h>

#include <cstring>

namespace tenon {

namespace {

thread_local bool errors_on_break = false;

// A body that follows a path passes the breaks that were recorded.
bool passes_recorded_break(std::string_view what, std::source_location where,
                           bool is_announced = false) {
  Follower* follower = Follower::current();
  if (!follower) return false;
  if (!is_announced) require_breaks_allowed(what, where);
  return follower->passes_break();
}

// What the body has written to a tensor that it captures is there before somebody reads it.
void finish_writes(const Tensor& real, std::string_view what, std::source_location where) {
  if (!thread_modes.tracer) [[likely]]
    return;
  if (const Follower* follower = Follower::current()) {
    if (!follower->walk().is_to_be_written(real)) return;
    if (passes_recorded_break(what, where)) return;
  }
  Trace* trace = Trace::current();
  if (trace && trace->inputs().written.holds(real))
    trace->graph_break(what, where, {.looks = true});
}

// Not that of operations, which ask fakes what they know.
bool runs_body_code() {
  bool is_recorded =
      thread_modes.tracer && (thread_modes.include & ~thread_modes.exclude & bit(Key::trace)) != 0;
  return is_recorded && (thread_modes.follower || !recorder_of_thread().for_metas);
}

// `real` stands for a tensor of this thread's body; for that of another thread nothing does.
Tensor real_for(std::string_view what, const Tensor& t, const Tensor& real) {
  if (!real.defined()) require_own_fake(t, what);
  return Tensor(real);
}

const Tensor& look_at(const Tensor& t, std::string_view what, std::source_location where) {
  require(t.defined(), "{}: the tensor is undefined", what);
  if (!t.is_fake()) {
    finish_writes(t, what, where);
    return t;
  }
  if (passes_recorded_break(what, where))
    if (const Tensor& real = Follower::current()->walk().real_of(t); real.defined()) return real;
  Trace* trace = Trace::current();
  require_own_fake(t, what);
  require(
      trace || !thread_modes.tracer, ErrorCode::unsupported,
      "{} looks at data{}, inside of an operation that is recorded on tensors without data; choose "
      "with tenon::where, or do it outside of the operation",
      what, at_place(where));
  require(trace, ErrorCode::data_dependent,
          "{}: the tensor ({}) has no data: it belongs to a recording that is over, or to "
          "the meta device",
          what, t);
  return trace->observe(t, what, where);
}

// The tensor to read from: itself, or what a fake stands for, as long as `t` is there.
const Tensor& readable(const Tensor& t, std::string_view what, std::source_location where) {
  auto read = [&]() -> const Tensor& { return look_at(t, what, where); };
  return thread_modes.tracer ? ErrorOfRun::look(t, read) : read();
}

// Most numbers are of the type that is asked for, or floats; those need no loop.
template <class T>
bool read_directly(const TensorImpl& impl, T& value) {
  auto dtype = static_cast<Dtype>(impl.dtype);
  bool is_same = dtype == dtype_of<T>, is_float = std::is_same_v<T, double> && dtype == Dtype::f32;
  if (is_same) value = *static_cast<const T*>(impl.data);
  if (is_float) value = static_cast<T>(*static_cast<const float*>(impl.data));
  return is_same || is_float;
}

template <class T>
T read_one(const Tensor& t, std::string_view what, std::source_location where) {
  const Tensor& real = readable(t, what, where);
  require(real.numel().guard_int() == 1, "item: expected a tensor with one element, found {}",
          real);
  require(is_computing(real.dtype()), ErrorCode::unsupported, "item: dtype {} has no host number",
          real.dtype());
  T value{};
  if (real.device() == kCPU && read_directly(*impl_of(real), value)) return value;
  PauseRecording pause;
  Tensor near = on_host(real);
  copy_strided({&value, dtype_of<T>, nullptr}, {impl_of(near)->data, near.dtype(), nullptr}, {});
  return value;
}

}  // namespace

namespace detail {

int64_t item_int(const Tensor& t, std::source_location where) {
  return read_one<int64_t>(t, "item()", where);
}
double item_double(const Tensor& t, std::source_location where) {
  // Optimizers read their numbers where the program has no line that could be told.
  return read_one<double>(t, where.line() ? "item()" : "reading a number of an optimizer", where);
}
bool item_bool(const Tensor& t, std::source_location where) {
  return read_one<bool>(t, where.line() ? "item()" : "if (tensor)", where);
}

bool is_looked_at(const Tensor& fake) {
  const Follower* follower = Follower::current();
  return follower && follower->walk().looks_next_at(fake);
}

std::optional<Number> item_symbol(const Tensor& t, Dtype dtype) {
  if (const Follower* follower = t.is_fake() ? Follower::current() : nullptr) {
    auto known = follower->walk().item_of_argument(t);
    if (known || !follower->captures_scalars()) return known;
  }
  Trace* trace = t.is_fake() ? Trace::current() : nullptr;
  if (!trace || !trace->symbols().captures_scalars()) return std::nullopt;
  return trace->item_symbol(t, dtype);
}

int64_t offset_of_fake(const Tensor& fake) {
  if (!runs_body_code()) return impl_of(fake)->storage_offset;
  if (const Follower* follower = Follower::current()) return offset_of(follower->walk().at(), fake);
  Trace* trace = Trace::current();
  if (!trace) return impl_of(fake)->storage_offset;
  if (trace->leaves_body_out) note_places_of(trace->inputs(), fake);
  return offset_of(trace->inputs(), fake);
}

uint64_t version_now(const Tensor& t, std::source_location where) {
  require_own_thread(t, "version()");
  return version_of(runs_body_code() ? readable(t, "version()", where) : t);
}

void* enter_disabled(std::vector<Tensor>& tensors, std::string_view what,
                     std::source_location where, bool is_announced) {
  RecordingItself ends_the_segment;  // in front of what runs uncompiled
  if (ErrorOfRun::is_to_be_ignored()) {
    for (Tensor& t : tensors) t = ErrorOfRun::value_of(t);
    return new OutsideOfBody(false);
  }
  if (passes_recorded_break(what, where, is_announced)) {
    settle_lazy_numbers();
    for (Tensor& t : tensors)
      if (t.defined() && t.is_fake()) t = real_for(what, t, Follower::current()->walk().real_of(t));
    return new OutsideOfBody;
  }
  Trace* trace = Trace::current();
  if (!trace) {
    for (const Tensor& t : tensors) require_own_thread(t, what);
    return nullptr;
  }
  trace->graph_break(what, where, {.is_announced = is_announced});
  settle_lazy_numbers();
  for (Tensor& t : tensors)
    if (t.defined()) t = real_for(what, t, real_of(t));
  return new OutsideOfBody;
}

void leave_disabled(void* token) { delete static_cast<OutsideOfBody*>(token); }
void* pause_recording() { return thread_modes.tracer ? new OutsideOfBody(false) : nullptr; }
bool is_recording() { return thread_modes.tracer != nullptr; }

}  // namespace detail

static void watch_host_writes(const Tensor& real) {
  if (Follower* follower = Follower::current())
    follower->host_writes.watch(real);
  else if (Trace* trace = Trace::current())
    trace->inputs().host_writes.watch(real);
}

// The host may write what the segment in progress uses: that runs before.
static void end_segment_for_writes(std::string_view what, std::source_location where, bool looks) {
  ErrorOfRun::run_or_ignore([&] {
    if (passes_recorded_break(what, where)) return;
    if (Trace* trace = Trace::current()) trace->graph_break(what, where, {.looks = looks});
  });
  settle_lazy_numbers();
}

// The program goes on writing memory that it lends to the body; tensors of the body may lie there.
static void watch_lent_memory(const Tensor& lent) {
  auto is_used = [&] {
    if (Follower* follower = Follower::current()) return follower->walk().has_used_memory_of(lent);
    Trace* trace = Trace::current();
    return trace && trace->has_used_memory_of(lent);
  };
  if (is_used())
    end_segment_for_writes("from_memory() of memory that the body has used", {}, /*looks=*/false);
  else
    settle_lazy_numbers_in(lent);
  watch_host_writes(lent);
}

// Whoever has the address may write there without being counted.
static void* exposed_address(const Tensor& real, std::source_location where) {
  const TensorImpl* impl = impl_of(real);
  if (thread_modes.tracer) {
    end_segment_for_writes("data_ptr()", where, /*looks=*/true);
    watch_host_writes(real);
  }
  if (impl->storage_ref) expose(*impl->storage_ref.get());
  return impl->data;
}

void* Tensor::data(std::source_location where) const {
  if (!defined()) detail::fail_undefined("data");
  if (!is_fake()) return exposed_address(*this, where);
  require_own_thread(*this, "data_ptr()");
  if (!thread_modes.tracer && config::flags().functorch.fake_tensor_allow_unsafe_data_ptr_access)
    return nullptr;
  // A copy: where recording begins anew, the frame of what was followed goes.
  return exposed_address(Tensor(readable(*this, "data_ptr()", where)), where);
}

void* Tensor::checked_data(Dtype wanted, std::source_location where) const {
  if (!defined()) detail::fail_undefined("data_ptr");
  require(dtype() == wanted, "data_ptr: the tensor has dtype {}, but {} was asked for", dtype(),
          wanted);
  return data(where);
}

void Tensor::copy_out(void* to, Dtype wanted, std::source_location where) const {
  const Tensor& given = readable(*this, "to_vector()", where);
  require(given.dtype() == wanted, "to_vector: the tensor has dtype {}, but {} was asked for",
          given.dtype(), wanted);
  Tensor real = on_host(given);
  IntList sizes{real.head()->sizes, static_cast<size_t>(real.dim())};
  Dims dense = contiguous_strides(sizes);
  copy_strided({to, wanted, reinterpret_cast<const int64_t*>(dense.data())},
               {impl_of(real)->data, wanted, real.head()->strides}, {sizes.data(), sizes.size()});
}

void check(SymBool condition, std::string_view text, std::source_location where) {
  if (!condition.is_symbolic())
    return require(condition.guard_bool(), "check failed at {}{}{}", user_location(where),
                   text.empty() ? "" : ": ", text);
  ShapeEnv* env = current_shape_env();
  require(env, "check: the condition {} belongs to a recording that is over", condition);
  env->check(condition.expr(),
             message("{}{}{}", text, text.empty() ? "at " : ", at ", user_location(where)));
  if (Trace* trace = Trace::current()) trace->symbols().emit_asserts();
}

void check(const Tensor& condition, std::string_view text, std::source_location where) {
  if (!condition.defined()) detail::fail_undefined("check");
  bool becomes_node = condition.is_fake() && thread_modes.tracer &&
                      config::flags().dynamo.rewrite_assert_with_torch_assert;
  if (becomes_node) return _assert_async(condition, text.empty() ? "check" : text);
  check(SymBool(detail::item_bool(condition, where)), text, where);
}

bool is_compiling() { return thread_modes.tracer != nullptr; }

void set_deterministic(bool on) { thread_modes.deterministic = on; }
bool is_deterministic() { return thread_modes.deterministic; }

std::string user_location(std::source_location where) {
  return message("{}:{}", report::shown_path(where.file_name()), where.line());
}

// A place in this library tells nobody where to look: in its sources, or in a header of it that
// stands elsewhere.
static bool is_ours(std::string_view file) {
  std::string_view here = std::source_location::current().file_name();
  return file.starts_with(here.substr(0, here.rfind("capture/"))) ||
         file.find("include/tenon/") != file.npos;
}

std::string at_place(std::source_location where) {
  bool is_shown = where.line() != 0 && !is_ours(where.file_name());
  return is_shown ? message(" at {}", user_location(where)) : std::string();
}

std::string at_place(const SourceLocation& where) {
  return where.file.empty() ? "" : message(" at {}:{}", where.file, where.line);
}

void require_breaks_allowed(std::string_view what, std::source_location where) {
  if (!errors_on_break) [[likely]]
    return;
  fail(ErrorCode::graph_break,
       "{}{} needs a graph break, which compiler::ErrorOnGraphBreak forbids here; keep it out of "
       "the compiled callable, or allow it with ErrorOnGraphBreak(false) around it",
       what, at_place(where));
}

compiler::ErrorOnGraphBreak::ErrorOnGraphBreak(bool on)
    : before_(std::exchange(errors_on_break, on)) {}
compiler::ErrorOnGraphBreak::~ErrorOnGraphBreak() { errors_on_break = before_; }

void graph_break(std::string_view reason, std::source_location where) {
  if (!thread_modes.tracer) return;
  if (reason.empty()) reason = "graph_break()";
  ErrorOfRun::run_or_ignore([&] {
    if (passes_recorded_break(reason, where)) return;
    if (Trace* trace = Trace::current()) trace->graph_break(reason, where);
  });
}

// A body that is followed ends its segments where the recording did: where something had been
// recorded since the last end, and the recording might be cut.
void detail::end_of_region(std::source_location where) {
  if (!thread_modes.tracer || BodyScope::is_inside()) return;
  constexpr std::string_view what = "nested_compile_region()";
  if (const Follower* follower = Follower::current()) {
    if (follower->is_one_graph() || !follower->walk().has_pending_steps()) return;
    if (passes_recorded_break(what, where, /*is_announced=*/true)) return;
  }
  if (Trace* trace = Trace::current(); trace && trace->may_end_segment())
    trace->graph_break(what, where, {.is_announced = true});
}

namespace {

const bool watches_the_host = (
    memory_lent_slot = watch_lent_memory,
    before_generator_slot = [](const char* what,
                               std::source_location where) { graph_break(what, where); },
    true);

const bool knows_modules = (
    nn::module_called_slot =
        [](std::span<const std::byte> memory) {
          if (thread_modes.follower) return;  // its slots take any tensor
          if (Trace* trace = Trace::current()) trace->inputs().modules.add(memory);
        },
    nn::mode_read_slot =
        [](const std::shared_ptr<const bool>& mode) {
          if (thread_modes.follower) return;  // what the body does with it, it does
          Trace* trace = Trace::current();
          if (trace && config::flags().dynamo.guard_nn_modules) trace->note_mode(mode);
        },
    true);

// A view that is written gives its base a history, and a base its views. The recording does not know
// `real`, and how tensors of the program are views of one another is no part of it: where code that
// has not run yet gives another tensor over the memory a history, it runs before somebody asks for
// that of `real`.
void finish_histories(const Tensor& real) {
  constexpr const char* what = "asking for the history of a tensor whose memory is written";
  if (ErrorOfRun::is_body_over()) return;  // results are collected
  if (const Follower* follower = Follower::current())
    if (!has_history_to_come(follower->walk(), real) || passes_recorded_break(what, {})) return;
  Trace* trace = Trace::current();
  if (!trace || trace->is_on_tape() || !trace->inputs().written.holds(real)) return;
  GraphRecorder& recorder = recorder_of_thread();
  std::vector<Tensor> fakes = recorder.live_fakes();
  auto gives_it = [&](const Tensor& fake) {
    const Tensor& behind = concrete_of(fake);
    return has_history_to_come(fake, behind) && shares_storage(behind, real);
  };
  if (std::ranges::none_of(fakes, gives_it)) return;
  std::ranges::copy(recorder.earlier_fakes(), std::back_inserter(fakes));
  change_needs(*trace, what, {});
  PauseRecording pause;
  for (const Tensor& fake : fakes)
    if (const Tensor& behind = concrete_of(fake); behind.defined() && shares_storage(behind, real))
      mark_requires_grad(fake, behind.requires_grad());
}

Tensor fake_that_stands_for(const Tensor& real) {
  if (const Follower* follower = Follower::current()) return follower->walk().fake_of(real);
  Trace* trace = Trace::current();
  return trace ? trace->inputs().stand_ins.fake_of(real) : Tensor();
}

const bool knows_written_tensors = (
    fake_of_body_slot = &fake_that_stands_for,
    written_fake_slot = [](const Tensor& real) -> Tensor {
      if (!runs_body_code() || has_need(real)) return Tensor();
      Tensor fake = fake_that_stands_for(real);
      if (!fake.defined())
        finish_histories(real);
      else if (fake.is_fake() && has_need(fake))
        return fake;
      return Tensor();
    },
    true);

}  // namespace

void detail::add_guard(std::function<bool()> holds, std::source_location where) {
  if (thread_modes.follower) return;  // what the body does with it, it does
  if (Trace* trace = Trace::current()) trace->keep_guard({std::move(holds), user_location(where)});
}

}  // namespace tenon

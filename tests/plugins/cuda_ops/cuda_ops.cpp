// Single ops on the double of NVIDIA's driver: the code of an op is one kernel, which runs the op's
// graph by the host's interpreter on the device's memory while the double has it open. So the host's
// side of eager ops is tested with every op, and results are those of the CPU to the bit.
//
// TENON_TEST_DECLINE names ops that it declines, separated by commas; `numbers` stands for graphs
// with numbers among their inputs.
#include "../../fake_cuda/fake_cuda.h"

#include <loopir/program.h>
#include <tenon/cuda.h>
#include <tenon/plugin.hpp>
#include <tenon/plugin_program.hpp>

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

namespace {

using namespace tenon::plugin;

/// What a kernel knows of a tensor before it has run: all but the address.
struct Shape {
  int32_t dtype;
  bool is_number;  // a tensor of the CPU, whose value is the parameter
  std::vector<int64_t> sizes, strides;

  explicit Shape(const tn_tensor& t)
      : dtype(t.dtype),
        is_number(t.device_type == TN_DEV_CPU),
        sizes(t.sizes, t.sizes + t.ndim),
        strides(t.strides, t.strides + t.ndim) {}

  size_t span() const {
    int64_t last = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 0) return 0;
      last += (sizes[d] - 1) * strides[d];
    }
    return static_cast<size_t>(last) + 1;
  }
  size_t bytes() const { return span() * static_cast<size_t>(loopir::item_size(dtype)); }
  /// A tensor of the CPU over memory that is open.
  tensor as_host(void* data) const {
    tn_tensor* out = nullptr;
    check(host->tensor->from_memory(
        data, sizes.data(), strides.data(), int32_t(sizes.size()), dtype, TN_DEV_CPU, 0,
        [](void*) {}, nullptr, &out));
    return tensor(out);
  }
};

/// What launches of one op have in common that have equal shapes. It is told to a kernel as its
/// first parameter; the others are addresses, or numbers, one a tensor.
struct Work {
  std::shared_ptr<tn_artifact> code;
  std::vector<std::optional<Shape>> inputs;  // numbers of the graph have none
  std::vector<std::optional<Shape>> outputs;
  std::vector<int64_t> syms;

  void run(void* const* words) const {
    std::vector<tensor> in, out;
    auto next = [&](const std::optional<Shape>& shape) {
      void* const* word = static_cast<void* const*>(*words++);
      if (!shape) return tensor();
      return shape->as_host(shape->is_number ? const_cast<void**>(word) : *word);
    };
    for (const auto& shape : inputs) in.push_back(next(shape));
    for (const auto& shape : outputs) out.push_back(next(shape));
    std::vector<tn_tensor*> handles, results(outputs.size());
    for (const tensor& t : in) handles.push_back(t.get());
    tn_call call{.struct_size = sizeof(tn_call),
                 .flags = 0,
                 .n_inputs = uint32_t(handles.size()),
                 .n_outputs = uint32_t(results.size()),
                 .n_syms = uint32_t(syms.size()),
                 ._r0 = 0,
                 .inputs = handles.data(),
                 .outputs = results.data(),
                 .syms = syms.data(),
                 .stream = nullptr};
    check(code->api->call(code.get(), &call));
    for (size_t i = 0; i < results.size(); ++i) {
      tensor result(results[i]);
      if (out[i]) check(host->tensor->copy(out[i].get(), result.get(), nullptr));
    }
  }

  bool may_touch(void* const* words, const FakeCudaLaunch& launch) const {
    for (const auto* list : {&inputs, &outputs})
      for (const auto& shape : *list) {
        void* const* word = static_cast<void* const*>(*words++);
        bool is_memory = shape && !shape->is_number && shape->bytes();
        if (is_memory && !launch.may_touch(*word, shape->bytes())) return false;
      }
    return true;
  }
};

/// All of the process: recordings launch them for as long as they like.
std::deque<Work>& all_work() {
  static auto* const list = new std::deque<Work>;
  return *list;
}
std::mutex& adding_work() {
  static auto* const lock = new std::mutex;
  return *lock;
}

const tn_cuda_api& cuda() {
  const auto* found = extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION);
  if (!found) throw error(TN_UNAVAILABLE, "nobody offers tenon.cuda/1");
  return *found;
}

std::atomic<tn_cuda_error_flag*> error_flag{nullptr};

// Values that the op cannot take are told of as kernels do it. The driver cannot be called here: it
// is at work.
void complain(tn_status* failed) {
  int64_t number = 0;
  tn_status* unknown = cuda().add_check(host->status_message(failed), &number);
  if (unknown) host->status_free(unknown);
  host->status_free(failed);
  *error_flag.load() = {number, 0};
}

// On a thread of its own: who waits for the device may be in the middle of recording a graph.
int32_t run_kernel(void*, const FakeCudaKernel*, const FakeCudaLaunch* launch) {
  const Work& work = **static_cast<Work**>(launch->args[0]);
  if (!work.may_touch(launch->args + 1, *launch)) return 700;
  std::thread([&] {
    tn_status* failed = barrier([&] { work.run(launch->args + 1); });
    if (failed) complain(failed);
  }).join();
  return 0;
}

constexpr uint32_t most_words = 256;
const std::vector<uint32_t>& words() {
  static const auto* const list = new std::vector<uint32_t>(most_words, sizeof(void*));
  return *list;
}

const FakeCudaCode code_table = {
    .self = nullptr,
    .load = [](void*, const void* image, size_t bytes, const char** why_not) -> void* {
      static char module;
      std::string_view text(static_cast<const char*>(image), bytes);
      *why_not = "the image is not of test_cuda_ops";
      return text.starts_with("cuda_ops") ? &module : nullptr;
    },
    .unload = [](void*, void*) {},
    .find =
        [](void*, void*, const char* name, FakeCudaKernel* out) {
          auto n = static_cast<uint32_t>(std::atoi(name));  // its parameters
          *out = {nullptr, n, words().data(), 32, 0, 0, 1024};
          return n > 0 && n <= most_words;
        },
    .run = run_kernel};

void give_code_to_the_double() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* set = driver ? ::dlsym(driver, "fake_cuda_set_code") : nullptr;
  if (!set) throw declined("the driver is not the double");
  reinterpret_cast<void (*)(const FakeCudaCode*)>(set)(&code_table);
}

bool is_listed(std::string_view name) {
  const char* list = std::getenv("TENON_TEST_DECLINE");
  std::istringstream in(list ? list : "");
  for (std::string item; std::getline(in, item, ',');)
    if (item == name) return true;
  return false;
}

void decline_what_is_listed(const graph& g) {
  for (uint32_t i = 0; i < g.size(); ++i) {
    node n = g.at(i);
    if (is_listed(sv(n.op_name))) throw declined(text("{} is listed", sv(n.op_name)));
    if (n.tags & TN_TAG_RANDOM) throw declined("random numbers are drawn when a call is made");
    for (const tn_arg& a : n.arguments())
      if (a.kind == TN_ARG_DEVICE) throw declined("a device is among the arguments");
  }
  for (uint32_t id : g.inputs())
    if (!g.value_at(id).is_tensor() && is_listed("numbers")) throw declined("numbers are listed");
}

class Program {
 public:
  static constexpr uint32_t flags = TN_AF_WRITES_GIVEN_OUTPUTS;

  explicit Program(const tn_compile_request& rq) {
    if (rq.stage != TN_STAGE_SINGLE_OP) throw declined("it takes single ops only");
    graph g(rq);
    decline_what_is_listed(g);
    for (uint32_t id : g.outputs()) keep_output(g, id);
    give_code_to_the_double();
    tn_cuda_error_flag* flag = nullptr;
    check(cuda().error_flag(0, &flag));
    error_flag = flag;
    check(cuda().module_load(0, str("cuda_ops"), &module_));
    size_t n_words = 1 + g.inputs().size() + g.outputs().size();
    if (n_words > most_words) throw declined("it has too many operands");
    tn_status* missing = cuda().kernel(module_, str(std::to_string(n_words)), &kernel_);
    if (missing) cuda().module_release(module_);
    check(missing);
    tn_artifact* code = nullptr;
    check(host->run->interpret(rq.ctx, rq.graph, &code));
    code_ = {code, [](tn_artifact* a) { a->api->destroy(a); }};
  }
  ~Program() { cuda().module_release(module_); }

  void call(tn_call& c) {
    if (!(c.flags & TN_CALL_OUTPUTS_GIVEN)) make_outputs(c);
    const Work* work = &work_for(c);
    std::vector<void*> words;
    std::vector<void*> args{&work};
    std::vector<tn_cuda_arg> info{{TN_CUDA_ARG_VALUE, sizeof(void*), 0, nullptr}};
    for (std::span<tn_tensor*> list :
         {std::span(c.inputs, c.n_inputs), std::span(c.outputs, c.n_outputs)})
      for (const tn_tensor* t : list) add_word(t, words, info);
    for (void*& word : words) args.push_back(&word);
    launch(args, info, c);
  }

 private:
  struct Output {
    int32_t dtype, device_index;
    std::vector<tn_dim> sizes, strides;
  };

  void keep_output(const graph& g, uint32_t id) {
    Output& out = outputs_.emplace_back();
    if (id == TN_NO_VALUE) return;
    value v = g.value_at(id);
    if (!v.is_tensor()) throw declined("an output is a number");
    out = {v.dtype,
           v.device_index,
           {v.dims().begin(), v.dims().end()},
           {v.stride_dims().begin(), v.stride_dims().end()}};
    is_there_.push_back(outputs_.size() - 1);
    for (auto* list : {&out.sizes, &out.strides})
      for (tn_dim& d : *list)
        if (d.expr != TN_EXPR_STATIC) d.value = expressions_.keep(g, d.expr);
  }

  void make_outputs(tn_call& c) const {
    std::vector<int64_t> values = expressions_.evaluate(c.syms);
    auto numbers = [&](const std::vector<tn_dim>& dims) {
      std::vector<int64_t> out;
      for (const tn_dim& d : dims)
        out.push_back(d.expr == TN_EXPR_STATIC ? d.value : values[size_t(d.value)]);
      return out;
    };
    for (size_t i : is_there_) {
      const Output& o = outputs_[i];
      std::vector<int64_t> sizes = numbers(o.sizes), strides = numbers(o.strides);
      check(host->tensor->empty(sizes.data(), strides.data(), int32_t(sizes.size()), o.dtype,
                                TN_DEV_CUDA, o.device_index, &c.outputs[i]));
    }
  }

  static void add_word(const tn_tensor* t, std::vector<void*>& words,
                       std::vector<tn_cuda_arg>& info) {
    void*& word = words.emplace_back(nullptr);
    tn_cuda_arg about{TN_CUDA_ARG_VALUE, sizeof(void*), 0, nullptr};
    if (t && t->device_type == TN_DEV_CPU) {
      about.kind = TN_CUDA_ARG_NUMBER;
      about.source_bytes = static_cast<uint16_t>(loopir::item_size(t->dtype));
      about.source = t->data;
      std::memcpy(&word, t->data, std::min<size_t>(about.source_bytes, sizeof word));
    } else if (t) {
      about.kind = TN_CUDA_ARG_ADDRESS;
      word = t->data;
    }
    info.push_back(about);
  }

  const Work& work_for(const tn_call& c) {
    std::string key(reinterpret_cast<const char*>(c.syms), c.n_syms * sizeof(int64_t));
    Work made{code_, {}, {}, {c.syms, c.syms + c.n_syms}};
    auto add = [&](const tn_tensor* t, std::vector<std::optional<Shape>>& to) {
      const auto& shape = to.emplace_back(t ? std::optional<Shape>(*t) : std::nullopt);
      key += text("|{} {}", t ? t->dtype : -1, t ? t->device_type : -1);
      if (!shape) return;
      for (int64_t n : shape->sizes) key += text(" {}", n);
      for (int64_t n : shape->strides) key += text(",{}", n);
    };
    for (uint32_t i = 0; i < c.n_inputs; ++i) add(c.inputs[i], made.inputs);
    for (uint32_t i = 0; i < c.n_outputs; ++i) add(c.outputs[i], made.outputs);
    std::lock_guard lock(adding_work());
    const Work*& known = known_[key];
    if (!known) known = &all_work().emplace_back(std::move(made));
    return *known;
  }

  void launch(std::span<void*> args, std::span<const tn_cuda_arg> info, const tn_call& c) const {
    tn_cuda_launch how{.struct_size = sizeof how,
                       .flags = 0,
                       .grid = {1, 1, 1},
                       .block = {32, 1, 1},
                       .shared_bytes = 0,
                       ._r0 = 0,
                       .stream = c.stream,
                       .args = args.data(),
                       .arg_info = info.data(),
                       .n_args = uint32_t(info.size()),
                       ._r1 = 0};
    check(cuda().launch(kernel_, &how));
  }

  std::vector<Output> outputs_;
  std::vector<size_t> is_there_;
  kept_expressions expressions_;
  tn_cuda_module* module_ = nullptr;
  tn_cuda_kernel* kernel_ = nullptr;
  std::shared_ptr<tn_artifact> code_;
  std::unordered_map<std::string, const Work*> known_;
};

struct CudaOps : Backend {
  std::unique_ptr<Program> compile(const tn_compile_request& rq) {
    return std::make_unique<Program>(rq);
  }
};

std::span<const int64_t> strides(const tn_tensor* t) { return {t->strides, size_t(t->ndim)}; }

// A kernel for the device, by the CPU's.
bool digamma(const kernel_call& c) {
  const tn_tensor* x = c.tensor_at(0);
  tensor here = tensor::strided(sizes(x), strides(x), x->dtype);
  check(host->tensor->copy(here.get(), x, c.stream));
  tn_arg arg{};
  arg.kind = TN_ARG_VALUE;
  tn_tensor *given = here.get(), *made = nullptr;
  run_op(op("aten.digamma.default"), std::span(&arg, 1), &given, std::span(&made, 1));
  tensor result(made);
  tensor there =
      tensor::strided(sizes(made), strides(made), made->dtype, TN_DEV_CUDA, x->device_index);
  check(host->tensor->copy(there.get(), made, c.stream));
  c.give(0, std::move(there));
  return true;
}

constexpr kernel_row kernel_rows[] = {{"aten.digamma.default", digamma}};

}  // namespace

TENON_PLUGIN(p) {
  p.backend<CudaOps>("cuda_ops");
  p.kernels(TN_DEV_CUDA, kernel_rows);
  p.on_shutdown([] { all_work().clear(); });
}

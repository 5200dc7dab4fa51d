// Copies of data: clone, casts, copy_ in place, and single elements read by the host.
#include "ops/kernel_loops.h"
#include "ops/op.h"
#include "ops/op_kernels.h"
#include "ops/shapes.h"

#include "core/device/device_memory.h"
#include "core/sym/shape_env.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

using Format = std::optional<MemoryFormat>;
constexpr OpTags any_device = OpTags::any_device;

TensorMeta clone_meta(const Tensor& self, Format format) {
  TensorMeta meta = meta_of(self);
  meta.strides = strides_for(self, format);
  return meta;
}

TensorMeta to_copy_meta(const Tensor& self, std::optional<Dtype> dtype,
                        std::optional<Layout> layout, std::optional<Device> device,
                        std::optional<bool>, bool, Format format) {
  require(layout.value_or(Layout::strided) == Layout::strided, ErrorCode::unsupported,
          "_to_copy: only strided tensors are supported");
  TensorMeta meta = clone_meta(self, format);
  meta.dtype = dtype.value_or(self.dtype());
  meta.device = device.value_or(self.device());
  return meta;
}

bool stays(const Tensor& self, Dtype dtype, Device device, bool copy, Format format) {
  MemoryFormat wanted = format.value_or(MemoryFormat::preserve);
  return !copy && dtype == self.dtype() && device == self.device() &&
         (wanted == MemoryFormat::preserve || self.is_contiguous(wanted));
}

Tensor converted_to(const Tensor& self, Dtype dtype, Device device, bool copy, Format format) {
  if (stays(self, dtype, device, copy, format)) return self;
  return _to_copy(self, dtype, std::nullopt, device, std::nullopt, false, format);
}

void check_broadcasts(const char* op, const Tensor& self, const Tensor& src) {
  Dims sizes = broadcast_sizes(self.sizes(), src.sizes());
  bool same = sizes.size() == self.sizes().size();
  for (size_t i = 0; same && i < sizes.size(); ++i) same = sizes_match(sizes[i], self.sizes()[i]);
  require(same, "{}: src of shape {} does not broadcast to self of shape {}", op, src.sizes(),
          self.sizes());
}

void copy_anywhere(const Tensor& to, const Tensor& from) {
  bool on_cpu = to.device() == kCPU && from.device() == kCPU;
  return on_cpu ? copy_broadcast(to, from) : copy_across(to, from);
}

void check_copy(const char* op, const Tensor& self, const Tensor& src) {
  check_broadcasts(op, self, src);
  require_elements_apart(op, self);
}

void copy_into(const Tensor& self, const Tensor& src, bool) {
  check_copy("copy_", self, src);
  if (self.is_same(src)) return;
  if (!may_overlap(self, src)) return copy_anywhere(self, src);
  Tensor apart = make_tensor(contiguous_meta(src.sizes(), src.dtype(), src.device()));
  copy_anywhere(apart, src);
  copy_anywhere(self, apart);
}

void copy_functional(Tensor& out, const Tensor&, const Tensor& src, bool) {
  copy_anywhere(out, src);
}

void require_one_element(const char* op, const Tensor& self) {
  require(sizes_match(self.numel(), 1), "{}: a tensor with one element is expected, found shape {}",
          op, self.sizes());
}

Number read_element(const Tensor& self) {
  require_one_element("item", self);
  Tensor host = on_host(self);
  return load_number(impl_of(host)->data, self.dtype());
}

// A number that only run time knows.
Number unknown_element(const Tensor& self) {
  require_one_element("item", self);
  ShapeEnv* env = current_shape_env();
  require(
      env, ErrorCode::data_dependent,
      "item: the value of a fake tensor is known at run time only; no trace is there to name it");
  if (self.dtype() == Dtype::bool_) return env->create_unbacked_bool();
  if (is_floating(self.dtype())) return env->create_unbacked_float();
  return env->create_unbacked();
}

bool are_equal(const Tensor& self, const Tensor& other) {
  if (self.dim() != other.dim() ||
      !std::equal(self.sizes().begin(), self.sizes().end(), other.sizes().begin()))
    return false;
  require(self.dtype() == other.dtype(),
          "equal: both tensors must have the same dtype, found {} and {}", self.dtype(),
          other.dtype());
  Tensor a = contiguous_of(on_host(self)), b = contiguous_of(on_host(other));
  return dispatch_dtype(self.dtype(), "equal", [&]<class T>() {
    return std::equal(data_of<T>(a), data_of<T>(a) + numel_of(a), data_of<T>(b));
  });
}

bool unknown_truth(const Tensor&, const Tensor&) {
  fail(ErrorCode::data_dependent, "equal: the answer is known at run time only");
}

bool is_true(const Tensor& self) {
  require_one_element("is_nonzero", self);
  return item(self).to_bool();
}

void check_expected(const char* what, OptSymIntList expected, SymIntList found) {
  if (!expected) return;
  bool same = expected->size() == found.size();
  for (size_t i = 0; same && i < found.size(); ++i) same = sizes_match((*expected)[i], found[i]);
  require(same, "_assert_tensor_metadata: {} {} were expected, found {}", what, *expected, found);
}

constexpr auto check_metadata = [](const Tensor& a, OptSymIntList size, OptSymIntList stride,
                                   std::optional<Dtype> dtype, std::optional<Device> device,
                                   std::optional<Layout>) {
  check_expected("sizes", size, a.sizes());
  check_expected("strides", stride, a.strides());
  require(!dtype || *dtype == a.dtype(), "_assert_tensor_metadata: dtype {} was expected, found {}",
          dtype.value_or(a.dtype()), a.dtype());
  // The CPU is one device, whatever index an archive gives it.
  bool same_device = !device || *device == a.device() ||
                     (device->type == DeviceType::cpu && a.device().type == DeviceType::cpu);
  require(same_device, "_assert_tensor_metadata: device {} was expected, found {}",
          device.value_or(a.device()), a.device());
};

void check_scalar(Number self, std::string_view text) {
  require(self.to_double() != 0, "assertion failed: {}", text);
}

constexpr auto assume_scalar = [](Number self, std::string_view text) {
  SymBool condition = self.sym_bool();
  ShapeEnv* env = current_shape_env();
  if (condition.is_symbolic() && env)
    env->check(condition.expr(), std::string(text));
  else
    check_scalar(self, text);
};

void check_async(const Tensor& self, std::string_view text) {
  Number value = read_element(self);
  require(value.to_double() != 0, "assertion failed: {}", text);
}

void become_resized(const Tensor& self, SymIntList size, MemoryFormat format) {
  for (SymInt s : size)
    require(expect_true(s >= 0), "a tensor cannot have a negative size: {}", size);
  Dims sizes = dims_of(size), strides = strides_for(size, format);
  bool same = sizes.size() == self.sizes().size() &&
              std::equal(sizes.begin(), sizes.end(), self.sizes().begin());
  if (same && format == MemoryFormat::contiguous) return;
  SymInt room = (sym_offset_of(self) + product(size)) * itemsize(self.dtype());
  if (self.is_fake())
    return replace_metadata(self, list_of(sizes), list_of(strides), sym_offset_of(self));
  int64_t bytes = room.guard_int();
  if (static_cast<uint64_t>(bytes) > impl_of(self)->storage_bytes) {
    // New memory: the elements that were there keep their places from the start of the storage.
    Tensor larger =
        make_tensor(contiguous_meta({bytes / itemsize(self.dtype())}, self.dtype(), self.device()));
    copy_bytes(impl_of(larger)->data, self.device(), impl_of(self)->storage, self.device(),
               impl_of(self)->storage_bytes);
    int64_t offset = self.storage_offset();
    become(self, larger);
    return replace_metadata(self, list_of(sizes), list_of(strides), offset);
  }
  replace_metadata(self, list_of(sizes), list_of(strides), sym_offset_of(self));
}

constexpr auto resize_in_place = [](const Tensor& self, SymIntList size, Format format) {
  become_resized(self, size, format.value_or(MemoryFormat::contiguous));
};
constexpr auto resize_as_in_place = [](const Tensor& self, const Tensor& other, Format format) {
  MemoryFormat wanted = format.value_or(MemoryFormat::contiguous);
  become_resized(self, other.sizes(),
                 wanted == MemoryFormat::preserve ? suggest_memory_format(other) : wanted);
};

}  // namespace

static constexpr OpDef copy_copy_rows[] = {
    {.schema = "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
     .tags = OpTags::copy | any_device,
     .core = true,
     .meta = fn<clone_meta>,
     .eager = [](Tensor& out, const Tensor& self, Format) { copy_anywhere(out, self); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }}},
     .linear = "self"},
    {.schema =
         "contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
     .tags = OpTags::maybe_alias | OpTags::relayout,
     .inverse = whole_content,
     .decomp =
         [](const Tensor& self, MemoryFormat format) {
           return self.is_contiguous(format) ? self : clone(self, format);
         },
     .linear = "self"},
    {.schema = "lift_fresh_copy(Tensor self) -> Tensor",
     .tags = any_device,
     .meta = [](const Tensor& self) { return like(self); },
     .eager = [](Tensor& out, const Tensor& self) { copy_anywhere(out, self); },
     .decomp = [](const Tensor& self) { return clone(self); },
     .vjp = {{"self", "grad", [](const Tensor& g) { return g; }}},
     .linear = "self"},
    {.schema = "lift(Tensor self) -> Tensor",
     .tags = OpTags::maybe_alias,
     .decomp = [](const Tensor& self) { return alias(self); }},
    {.schema = "_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? "
               "device=None, "
               "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) "
               "-> Tensor",
     .tags = OpTags::copy | any_device,
     .core = true,
     .meta = fn<to_copy_meta>,
     .eager = [](Tensor& out, const Tensor& self, std::optional<Dtype>, std::optional<Layout>,
                 std::optional<Device>, std::optional<bool>, bool,
                 Format) { copy_anywhere(out, self); },
     .vjp = {{"self", "grad, self.meta",
              [](const Tensor& g, const Tensor& like) {
                return g.to(like.device(), like.dtype());
              }}},
     .linear = "self"},
    {.schema =
         "to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, "
         "MemoryFormat? memory_format=None) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .inverse = whole_content,
     .decomp =
         [](const Tensor& self, Dtype dtype, bool, bool copy, Format format) {
           return converted_to(self, dtype, self.device(), copy, format);
         }},
    {.schema =
         "to.device(Tensor(a) self, Device device, ScalarType dtype, bool non_blocking=False, "
         "bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .inverse = whole_content,
     .decomp = [](const Tensor& self, Device device, Dtype dtype, bool, bool copy,
                  Format format) { return converted_to(self, dtype, device, copy, format); }},
    {.schema =
         "to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, "
         "MemoryFormat? memory_format=None) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .inverse = whole_content,
     .decomp =
         [](const Tensor& self, std::optional<Dtype> dtype, std::optional<Layout>,
            std::optional<Device> device, std::optional<bool>, bool, bool copy, Format format) {
           return converted_to(self, dtype.value_or(self.dtype()), device.value_or(self.device()),
                               copy, format);
         }},
    {.schema = "to.other(Tensor(a) self, Tensor other, bool non_blocking=False, bool copy=False, "
               "MemoryFormat? memory_format=None) -> Tensor(a)",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](const Tensor& self, const Tensor& other, bool, bool copy, Format format) {
           return converted_to(self, other.dtype(), other.device(), copy, format);
         }},
    {.schema = "type_as(Tensor self, Tensor other) -> Tensor",
     .tags = OpTags::maybe_alias,
     .decomp =
         [](const Tensor& self, const Tensor& other) {
           return converted_to(self, other.dtype(), other.device(), false, std::nullopt);
         }},
    {.schema = "copy(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
     .tags = any_device,
     .core = true,
     .meta =
         [](const Tensor& self, const Tensor& src, bool) {
           check_broadcasts("copy", self, src);
           return strided_like(self);
         },
     .eager = fn<copy_functional>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }},
             {"src", "grad", [](const Tensor& g) { return g; }}},
     .linear = "src"},
    {.schema = "copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
     .tags = any_device,
     .meta = [](const Tensor& self, const Tensor& src, bool) { check_copy("copy_", self, src); },
     .eager = fn<copy_into>,
     .vjp = {{"self", "grad", [](const Tensor& g) { return g.zeros_like(); }},
             {"src", "grad", [](const Tensor& g) { return g; }}}},
    {.schema = "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> "
               "Tensor(a!)",
     .tags = any_device,
     .meta = resize_in_place,
     .eager = resize_in_place},
    {.schema =
         "resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> "
         "Tensor(a!)",
     .tags = any_device,
     .meta = resize_as_in_place,
     .eager = resize_as_in_place},
    {.schema = "_local_scalar_dense(Tensor self) -> Scalar",
     .tags = OpTags::data_dependent | any_device,
     .core = true,
     .meta = fn<unknown_element>,
     .eager = fn<read_element>,
     .vjp = nondiff},
    {.schema = "item(Tensor self) -> Scalar",
     .tags = OpTags::data_dependent | any_device,
     .meta = fn<unknown_element>,
     .eager = fn<read_element>,
     .vjp = nondiff},
    {.schema = "is_nonzero(Tensor self) -> bool",
     .tags = OpTags::data_dependent | any_device,
     .decomp = fn<is_true>,
     .vjp = nondiff},
    {.schema = "equal(Tensor self, Tensor other) -> bool",
     .tags = OpTags::data_dependent | any_device,
     .meta = fn<unknown_truth>,
     .eager = fn<are_equal>,
     .vjp = nondiff},
    {.schema = "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, "
               "ScalarType? dtype=None, *, Device? device=None, Layout? layout=None) -> ()",
     .tags = OpTags::side_effect | any_device,
     .meta = check_metadata,
     .eager = check_metadata},
    {.schema = "_assert_scalar(Scalar self, str assert_msg) -> ()",
     .tags = OpTags::side_effect | any_device,
     .meta = assume_scalar,
     .eager = fn<check_scalar>},
    {.schema = "_assert_async(Tensor self) -> ()",
     .tags = OpTags::side_effect | any_device,
     .meta = [](const Tensor&) {},
     .eager = [](const Tensor& self) { check_async(self, "_assert_async"); }},
    {.schema = "_assert_async.msg(Tensor self, str assert_msg) -> ()",
     .tags = OpTags::side_effect | any_device,
     .meta = [](const Tensor&, std::string_view) {},
     .eager = fn<check_async>},
    {.schema = "sym_size.int(Tensor self, int dim) -> SymInt",
     .tags = any_device,
     .core = true,
     .meta = [](const Tensor& self, int64_t dim) { return self.size(dim); },
     .eager = [](const Tensor& self, int64_t dim) { return self.size(dim); }},
    {.schema = "sym_stride.int(Tensor self, int dim) -> SymInt",
     .tags = any_device,
     .core = true,
     .meta = [](const Tensor& self, int64_t dim) { return self.stride(dim); },
     .eager = [](const Tensor& self, int64_t dim) { return self.stride(dim); }},
    {.schema = "sym_numel(Tensor self) -> SymInt",
     .tags = any_device,
     .core = true,
     .meta = [](const Tensor& self) { return self.numel(); },
     .eager = [](const Tensor& self) { return self.numel(); }},
    {.schema = "sym_storage_offset(Tensor self) -> SymInt",
     .tags = any_device,
     .core = true,
     .meta = [](const Tensor& self) { return sym_offset_of(self); },
     .eager = [](const Tensor& self) { return sym_offset_of(self); }},
};

extern constinit const OpFamily op_family_copy_copy{copy_copy_rows};

}  // namespace tenon::ops

// SPDX-License-Identifier: Apache-2.0
// Modules: classes whose parameters, buffers and sub-modules are plain members, found by name.
//
//     struct Net : tenon::nn::Module {
//       nn::Linear fc1{784, 512}, fc2{512, 10};
//       nn::Dropout drop{0.1};
//       TENON_MODULE(Net, fc1, drop, fc2)
//       Tensor forward(const Tensor& x) { return fc2(drop(tenon::relu(fc1(x)))); }
//     };
//     Net net;
//     Tensor y = net(x);
//
// The macro lists the members that count; names are theirs, as in PyTorch: "fc1.weight". A member
// may be a Parameter, a Buffer, a Module, or an optional, smart pointer, vector, array or map with
// text keys of these ("blocks.0.weight").
//
// Copies: tensors are handles, so a copy of a module is a module over the same parameters and
// buffers, with a training mode of its own. Threads: forward may run in several threads at once
// where it writes no buffer; everything else needs the caller's synchronisation.
#pragma once

#include <tenon/tensor.h>

#include <array>
#include <atomic>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

/// Named tensors, as state dicts and .safetensors files hold them.
using StateDict = std::map<std::string, Tensor>;

/// Reads a .safetensors file. Throws UserError bad_file or unsupported.
TENON_API StateDict load_tensors(const std::string& path);
/// Writes a .safetensors file. Throws UserError where it cannot be written.
TENON_API void save_tensors(const std::string& path, const StateDict& tensors);

namespace nn {

/// A tensor that training changes: a leaf that needs a gradient. Shares the data of `value`.
class TENON_API Parameter : public Tensor {
 public:
  Parameter() = default;  ///< absent: a layer without bias
  explicit Parameter(const Tensor& value, bool requires_grad = true);
};

/// A tensor that belongs to the state of a module, but is not trained.
class TENON_API Buffer : public Tensor {
 public:
  Buffer() = default;
  /// One that is not persistent is left out of state dicts.
  explicit Buffer(const Tensor& value, bool persistent = true)
      : Tensor(value), persistent_(persistent) {}
  Buffer& operator=(Tensor value) {
    Tensor::operator=(std::move(value));
    return *this;
  }
  bool is_persistent() const { return persistent_; }

 private:
  bool persistent_ = true;
};

class Module;

/// Sees the members of a module, in the order of its macro. Absent ones are not shown.
class TENON_API MemberVisitor {
 public:
  virtual void parameter(const std::string& name, Parameter& p) = 0;
  virtual void buffer(const std::string& name, Buffer& b) = 0;
  virtual void module(const std::string& name, Module& m) = 0;

 protected:
  ~MemberVisitor() = default;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
struct NamedModule {
  std::string name;
  Module* module;  ///< lives as long as the module that was asked
};
/// What load_state_dict found to differ.
struct StateDifference {
  std::vector<std::string> missing, unexpected;
};

/// Whether a module is being trained. A copy is a value of its own.
class TENON_API ModeFlag {
 public:
  ModeFlag() : on_(std::make_shared<bool>(true)) {}
  ModeFlag(const ModeFlag& other) : on_(std::make_shared<bool>(*other.on_)) {}
  ModeFlag& operator=(const ModeFlag& other) { return *this = *other.on_; }
  ModeFlag& operator=(bool on) {
    *on_ = on;
    return *this;
  }
  /// While a callable is recorded, the answer becomes a guard of it.
  operator bool() const;  // NOLINT: used as a bool

 private:
  std::shared_ptr<bool> on_;
};

class TENON_API Module {
 public:
  using tenon_opaque = void;  ///< compiled callables get the module itself, see <tenon/tree.h>

  Module() = default;
  Module(const Module&) = default;
  Module(Module&&) = default;
  Module& operator=(const Module&) = default;
  Module& operator=(Module&&) = default;
  virtual ~Module() = default;

  /// The parameters of this module and all below it, each once.
  std::vector<Tensor> parameters() const;
  std::vector<NamedTensor> named_parameters() const;
  std::vector<Tensor> buffers() const;
  std::vector<NamedTensor> named_buffers() const;
  /// The modules right below this one.
  std::vector<NamedModule> named_children();
  /// This module (named "") and all below it.
  std::vector<NamedModule> named_modules();
  /// Calls `f` with all modules below this one, then with this one.
  void apply(const std::function<void(Module&)>& f);

  /// Layers such as Dropout and BatchNorm differ between training, the mode at the start, and
  /// evaluation. A compiled callable has a version for each mode that it was called in.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }

  /// All that a call or training may write: parameters and buffers.
  std::vector<Tensor> state_tensors() const;

  /// Turns floating parameters and buffers into `dtype`, or moves all of them. The handles are
  /// replaced: call it before an optimizer is made or a copy is taken.
  Module& to(Dtype dtype);
  Module& to(Device device);
  Module& requires_grad_(bool value = true);
  /// Clears the gradients of all parameters.
  void zero_grad() const;

  /// Handles of all parameters and persistent buffers, by name; see clone().
  StateDict state_dict() const;
  /// Copies values into the parameters and buffers of these names, converting dtypes. Throws
  /// UserError when a shape differs or, if strict, when names are missing or unexpected; the
  /// message lists them all and nothing is changed.
  StateDifference load_state_dict(const StateDict& state, bool strict = true);
  /// The same with a .safetensors file, under the names that PyTorch uses.
  void save_state(const std::string& path) const { save_tensors(path, state_dict()); }
  StateDifference load_state(const std::string& path, bool strict = true) {
    return load_state_dict(load_tensors(path), strict);
  }

  /// The name of the class. TENON_MODULE writes it and the one below.
  virtual std::string_view type_name() const { return "Module"; }
  virtual void visit_members(MemberVisitor& visitor);

 private:
  ModeFlag training_;
};

/// "Net(fc1: Linear, drop: Dropout, fc2: Linear)", nested.
TENON_API std::string to_text(const Module& module);

namespace detail {

template <class T>
inline constexpr bool is_member_list = false;
template <class T, class A>
inline constexpr bool is_member_list<std::vector<T, A>> = true;
template <class T, size_t N>
inline constexpr bool is_member_list<std::array<T, N>> = true;
template <class T>
inline constexpr bool is_member_pointer = false;
template <class T>
inline constexpr bool is_member_pointer<std::optional<T>> = true;
template <class T>
inline constexpr bool is_member_pointer<std::unique_ptr<T>> = true;
template <class T>
inline constexpr bool is_member_pointer<std::shared_ptr<T>> = true;
template <class T>
inline constexpr bool is_member_map = false;
template <class T, class C, class A>
inline constexpr bool is_member_map<std::map<std::string, T, C, A>> = true;

template <class T>
void visit_member(MemberVisitor& visitor, const std::string& name, T& member) {
  if constexpr (std::derived_from<T, Parameter>) {
    if (member.defined()) visitor.parameter(name, member);
  } else if constexpr (std::derived_from<T, Buffer>) {
    if (member.defined()) visitor.buffer(name, member);
  } else if constexpr (std::derived_from<T, Module>) {
    visitor.module(name, member);
  } else if constexpr (is_member_pointer<T>) {
    if (member) visit_member(visitor, name, *member);
  } else if constexpr (is_member_list<T>) {
    for (size_t i = 0; i < member.size(); ++i)
      visit_member(visitor, name + "." + std::to_string(i), member[i]);
  } else {
    static_assert(is_member_map<T>,
                  "TENON_MODULE takes Parameter, Buffer and Module members, and optionals, smart "
                  "pointers, vectors, arrays and maps with text keys of these");
    for (auto& [key, value] : member) visit_member(visitor, name + "." + key, value);
  }
}

/// Cuts the first name off "fc1, drop, fc2".
TENON_API std::string take_name(std::string_view& names);

template <class... Members>
void visit_members(MemberVisitor& visitor, [[maybe_unused]] std::string_view names,
                   Members&... members) {
  (visit_member(visitor, take_name(names), members), ...);
}

/// Of a class of modules: see mark_static.
template <class M>
inline constinit std::atomic<bool> is_marked_static{false};

TENON_API void enter_static_numbers();
TENON_API void leave_static_numbers();
/// A recording learns where a module lies that the body calls, and with it the handles of its tensors.
TENON_API void note_called(const Module& module, size_t bytes);
/// Around the forward of a module, which takes `bytes`.
class CallOfModule {
 public:
  CallOfModule(const Module& module, size_t bytes, bool are_static) : are_static_(are_static) {
    note_called(module, bytes);
    if (are_static_) enter_static_numbers();
  }
  ~CallOfModule() {
    if (are_static_) leave_static_numbers();
  }
  CallOfModule(const CallOfModule&) = delete;

 private:
  const bool are_static_;
};

}  // namespace detail
}  // namespace nn

/// Integers that operations get in the `forward` of these modules, their members above all, stay
/// constants of compiled code: one that changes needs another version, each time. For sizes that
/// decide how code is made, and seldom change. Of classes with TENON_MODULE; before the first call.
template <std::derived_from<nn::Module> M>
void mark_static() {
  nn::detail::is_marked_static<M> = true;
}

}  // namespace tenon

/// Names a module's class and its members, inside of it; members after it are public. Calling the
/// module calls its `forward`, if it has one. Not for classes inside of functions, which have no templates.
#define TENON_MODULE(Type, ...)                                                            \
 public:                                                                                   \
  std::string_view type_name() const override { return #Type; }                            \
  void visit_members([[maybe_unused]] ::tenon::nn::MemberVisitor& visitor) override {      \
    ::tenon::nn::detail::visit_members(visitor, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__);  \
  }                                                                                        \
  template <class... Arguments, class Self = Type>                                         \
  decltype(auto) operator()(Arguments&&... arguments) {                                    \
    ::tenon::nn::detail::CallOfModule call(*this, sizeof(Type),                            \
                                           ::tenon::nn::detail::is_marked_static<Type>);   \
    return static_cast<Self&>(*this).forward(std::forward<Arguments>(arguments)...);       \
  }                                                                                        \
  template <class... Arguments, class Self = Type>                                         \
  decltype(auto) operator()(Arguments&&... arguments) const {                              \
    ::tenon::nn::detail::CallOfModule call(*this, sizeof(Type),                            \
                                           ::tenon::nn::detail::is_marked_static<Type>);   \
    return static_cast<const Self&>(*this).forward(std::forward<Arguments>(arguments)...); \
  }

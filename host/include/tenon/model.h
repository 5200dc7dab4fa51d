// SPDX-License-Identifier: Apache-2.0
// Models in .pt2 archives, as torch.export.save() writes them, and in .tenon files with their code:
// loaded, called like functions.
//
//     auto model = tenon::load("resnet.pt2", {.backend = "eager"});
//     tenon::Tensor y = model(tenon::randn({1, 3, 224, 224}));
//
// A model takes what the forward method of the exported module took: tensors, numbers, and lists
// and dicts of these. Results have the structure that forward returned. Sizes may differ from call
// to call where the export made them dynamic, within the range that it names.
#pragma once

#include <tenon/tree.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {

namespace detail {
/// A type that is none of the leaves of a Tree.
template <class T>
concept Structured =
    std::is_class_v<T> && !std::is_convertible_v<const T&, Tensor> &&
    !std::is_convertible_v<const T&, std::string> && !std::is_convertible_v<const T&, Number>;
}  // namespace detail

/// A value whose structure is known at run time only: None, a tensor, a number, a text, or a list
/// or dict of such values. Tuples are lists; a dict keeps its keys in the order of the model.
///
///     Tree out = model(x);
///     Tensor logits = out["logits"];
///     auto [mean, deviation] = out["moments"].as<std::pair<Tensor, Tensor>>();
///
/// Tensors are handles: a Tree shares their data. Reading from several threads is safe. Asking for
/// what is not there throws UserError invalid_argument that says what is.
class TENON_API Tree {
 public:
  enum class Kind : uint8_t { none, tensor, number, text, list, dict };

  Tree() = default;  ///< None
  Tree(Tensor t)     // NOLINT: values become trees where a model takes them
      : kind_(t.defined() ? Kind::tensor : Kind::none), tensor_(std::move(t)) {}
  Tree(std::string s) : kind_(Kind::text), text_(std::move(s)) {}  // NOLINT
  Tree(const char* s) : Tree(std::string(s)) {}                    // NOLINT
  Tree(Number n) : kind_(Kind::number), number_(n) {}              // NOLINT
  template <class T>
  requires std::is_arithmetic_v<T> Tree(T n) : Tree(Number(n)) {}  // NOLINT
  /// Containers, optionals, tuples and plain structs: maps with text keys become dicts, the others
  /// lists of their elements or fields.
  template <detail::Structured T>
  Tree(const T& value);  // NOLINT
  template <class T>
  Tree(const Scalar<T>& s) : Tree(s.value()) {}  // NOLINT
  static Tree list(std::vector<Tree> items);
  static Tree dict(std::vector<std::pair<std::string, Tree>> items);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::none; }
  size_t size() const { return items_.size(); }  ///< of lists and dicts, else 0
  const std::vector<std::string>& keys() const { return keys_; }
  const Tree& operator[](size_t index) const;  ///< of dicts: in the order of keys()
  const Tree& operator[](std::string_view key) const;

  const Tensor& tensor() const;
  Number number() const;
  const std::string& text() const;
  operator Tensor() const { return tensor(); }  // NOLINT: a result of one tensor is a Tensor
  /// The tree as a C++ type: Tensor, a number, std::string, std::optional of those, vectors,
  /// arrays, tuples, maps with text keys, and plain structs, whose fields are the elements in
  /// order.
  template <class T>
  T as() const;
  /// All tensors in order, depth first.
  std::vector<Tensor> tensors() const;
  /// "(f32[2, 3], {\"mask\": none})", for messages.
  std::string describe() const;
  friend std::string to_text(const Tree& tree) { return tree.describe(); }

 private:
  template <class T>
  void fill(T& value) const;
  void require_size(size_t expected) const;

  Kind kind_ = Kind::none;
  Tensor tensor_;
  Number number_;
  std::string text_;
  std::vector<std::string> keys_;
  std::vector<Tree> items_;
};

struct LoadOptions {
  /// Name of a backend, see `tenon backends`; empty: inductor where it is installed, else
  /// aot_eager.
  std::string backend;
  /// A mode that the backend's manifest declares; "" or "default" is its plain setting.
  std::string mode;
  /// Options of the backend, as TOML values by name.
  std::map<std::string, std::string> options;
  /// Which program of an archive that holds several.
  std::string program;
  /// Seeded random weights instead of those of the archive, which may then be without.
  bool random_weights = false;
  /// Whether the checksums of the archive are checked.
  bool check_crc = true;
  /// The most bytes that an archive may unpack to; a larger one is refused before it is read.
  uint64_t max_size = uint64_t{64} << 30;
  /// Calls are recorded on the tape, and parameters need gradients. See load_model().
  bool training = false;
  /// Where the weights are and calls run: arguments must be there, and results are. Whatever device
  /// the archive names, this is taken.
  Device device;
};

/// One size of an input: a number, or an expression over the dynamic sizes of the archive.
struct SizeSpec {
  std::string text;                 ///< "3", "s77", "2*s77 + 1"
  std::optional<int64_t> fixed;     ///< of a number
  std::optional<int64_t> min, max;  ///< of a dynamic size, where the archive bounds it
};

/// One leaf of what a model takes or returns.
struct ValueSpec {
  enum class Kind : uint8_t { tensor, number, constant };
  std::string name;  ///< "x", "opts_parts_0" of inputs; "out.0" of outputs
  Kind kind = Kind::tensor;
  Dtype dtype = Dtype::f32;     ///< of tensors
  std::vector<SizeSpec> sizes;  ///< of tensors
  Tree constant;                ///< the value that was fixed by the export
};
/// "x: f32[s77, 64] with s77 from 1 to 512".
TENON_API std::string to_text(const ValueSpec& spec);

/// A loaded model. Copies are handles to one model: they share weights and compiled code.
///
/// Threads: calls from any thread; one compiles at a time, and calls of a model that writes its own
/// weights or buffers take turns. Weights must not be written by others during a call.
class TENON_API Model {
 public:
  using Arguments = std::vector<std::pair<std::string, Tree>>;
  using Gradients = std::map<std::string, Tensor>;

  /// Calls the model with forward's arguments in their order; those that forward declares by
  /// keyword only follow. Inputs that the model writes are written in place. Results are new
  /// tensors unless forward returned its arguments or parameters.
  ///
  /// Throws UserError invalid_argument that names the input, with what was expected and found: a
  /// wrong number of inputs or structure, dtype, rank or size, a size outside its range;
  /// BackendError where the backend fails.
  template <class... A>
  Tree operator()(const A&... arguments) const {
    return call(std::vector<Tree>{Tree(arguments)...});
  }
  /// The same with arguments by their names in forward, after positional ones. `gradients` receives
  /// those that the archive's graph computes, by the names of parameters.
  Tree call(const std::vector<Tree>& positional, const Arguments& named = {},
            Gradients* gradients = nullptr) const;
  Tree call_named(const Arguments& named) const { return call({}, named); }
  /// Compiles for arguments like these without running the model.
  void prepare(const std::vector<Tree>& positional, const Arguments& named = {}) const;

  /// The leaves that a call is made of, in the order in which they are flattened.
  std::vector<ValueSpec> inputs() const;
  std::vector<ValueSpec> outputs() const;
  /// Names of forward's arguments in order; empty where the archive has none.
  std::vector<std::string> argument_names() const;

  /// Names of weights as in the module's state_dict, constants of the export included among the
  /// buffers, in the order of the archive.
  std::vector<std::string> parameter_names() const;
  std::vector<std::string> buffer_names() const;
  /// The live value, on the CPU: what is written into it is seen by later calls and never reaches
  /// the file. Throws UserError with the nearest names for an unknown one.
  Tensor parameter(std::string_view name) const;
  Tensor buffer(std::string_view name) const;

  /// Writes the model as it is now, weights and the code that was compiled so far, into a `.tenon`
  /// file: load() maps it, also where the backend that compiled is not installed. Nothing compiled
  /// yet: prepare() it first. Throws UserError unsupported for what cannot be saved: models that
  /// are trained, and backends that keep their code to themselves.
  void save(const std::string& path) const;

  /// How often it was compiled, which is once unless the backend's code holds for some sizes only.
  size_t compiles() const;
  double compile_ms() const;
  /// The file and the name of the program in it.
  std::string file() const;
  std::string name() const;

 private:
  friend TENON_API Model load(const std::string& path, const LoadOptions& options);
  struct State;
  explicit Model(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// Reads a .pt2 archive; the weights are mapped, not copied. Nothing is compiled before the first
/// call. Of a `.tenon` file the code is mapped, too, and backend, options and weights are the
/// file's own.
///
/// Throws UserError bad_file for a file that is missing, malformed or of an old layout, unsupported
/// with the list of ops for one that is well-formed but beyond Tenon, invalid_backend with the
/// nearest names for an unknown backend; BackendError for code that cannot run here.
TENON_API Model load(const std::string& path, const LoadOptions& options = {});

// ---- trees from and to C++ types

namespace detail {

template <class T>
inline constexpr bool is_text_map = false;
template <class V, class... R>
inline constexpr bool is_text_map<std::map<std::string, V, R...>> = true;
template <class V, class... R>
inline constexpr bool is_text_map<std::unordered_map<std::string, V, R...>> = true;

/// Gathers the fields of a struct.
struct FieldsToTrees {
  std::vector<Tree>& items;
  void fields(const auto&... field) { (items.emplace_back(field), ...); }
};

/// The other way; there are as many items as fields.
struct TreesToFields {
  const std::vector<Tree>& items;
  template <class... Fields>
  void fields(Fields&... field) {
    size_t i = 0;
    ((field = items[i++].as<Fields>()), ...);
  }
};

}  // namespace detail

template <detail::Structured T>
Tree::Tree(const T& value) : kind_(Kind::list) {
  if constexpr (detail::is_instance<T, std::optional>) {
    *this = value ? Tree(*value) : Tree();
  } else if constexpr (detail::is_text_map<T>) {
    kind_ = Kind::dict;
    for (const auto& [key, item] : value) {
      keys_.push_back(key);
      items_.emplace_back(item);
    }
  } else if constexpr (detail::is_instance<T, std::vector> || detail::is_std_array<T>) {
    for (const auto& item : value) items_.emplace_back(item);
  } else if constexpr (detail::is_instance<T, std::pair> || detail::is_instance<T, std::tuple>) {
    std::apply([&](const auto&... item) { (items_.emplace_back(item), ...); }, value);
  } else {
    static_assert(std::is_aggregate_v<T>,
                  "a model takes tensors, numbers, texts, containers and plain structs");
    detail::FieldsToTrees fields{items_};
    detail::visit_fields(value, fields);
  }
}

template <class T>
T Tree::as() const {
  T value{};
  fill(value);
  return value;
}

template <class T>
void Tree::fill(T& value) const {
  if constexpr (std::is_same_v<T, Tree>) {
    value = *this;
  } else if constexpr (std::is_same_v<T, Tensor>) {
    value = tensor();
  } else if constexpr (std::is_same_v<T, bool>) {
    value = number().to_bool();
  } else if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(number().to_double());
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = static_cast<T>(number().to_int());
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = text();
  } else if constexpr (detail::is_instance<T, std::optional>) {
    if (!is_none()) fill(value.emplace());
  } else if constexpr (detail::is_text_map<T>) {
    require(kind_ == Kind::dict, "expected a dict, found {}", to_text(*this));
    for (size_t i = 0; i < size(); ++i) items_[i].fill(value[keys_[i]]);
  } else if constexpr (detail::is_instance<T, std::vector>) {
    require(kind_ == Kind::list || kind_ == Kind::dict, "expected a list, found {}",
            to_text(*this));
    value.resize(size());
    for (size_t i = 0; i < size(); ++i) items_[i].fill(value[i]);
  } else if constexpr (detail::is_std_array<T>) {
    require_size(value.size());
    for (size_t i = 0; i < size(); ++i) items_[i].fill(value[i]);
  } else if constexpr (detail::is_instance<T, std::pair> || detail::is_instance<T, std::tuple>) {
    require_size(std::tuple_size_v<T>);
    size_t i = 0;
    std::apply([&](auto&... item) { (items_[i++].fill(item), ...); }, value);
  } else {
    static_assert(std::is_aggregate_v<T>, "a Tree cannot be turned into this type");
    require_size(detail::count_fields<T>());
    detail::TreesToFields fields{items_};
    detail::visit_fields(value, fields);
  }
}

}  // namespace tenon

// The op table: built from the row families, and what each key of an op does.
#include "ops/op_table.h"

#include "core/kept_numbers.h"
#include "core/tensor/each_tensor.h"
#include "core/tensor/owner_thread.h"
#include "ops/device_call.h"
#include "ops/forms/complex_forms.h"
#include "ops/forms/functional_form.h"
#include "ops/forms/out_form.h"
#include "ops/index/mask.h"
#include "ops/modes/autocast.h"
#include "ops/modes/default_device.h"
#include "ops/op_kernels.h"
#include "ops/pointwise.h"
#include "ops/pointwise/number_roles.h"
#include "ops/shapes.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace tenon {

extern const OpFamily* const op_families[];
extern const size_t n_op_families;
namespace ops {
// Rows whose kernels run graphs, from the room to the right; they have no C++ function and no id at
// build time.
extern const OpFamily op_family_graph_control_flow;
}  // namespace ops

namespace {

constexpr size_t max_ops = 1 << 14;

/// All entries; leaked, like everything that outlives static destruction.
struct Table {
  OpEntry* by_id[max_ops] = {};
  std::atomic<size_t> size{0};
  std::unordered_map<std::string_view, OpEntry*> by_name;
  std::deque<OpEntry> entries;
  std::deque<OpDef> derived;
  std::mutex adding;
};

void run_trace(const CallArgs& call) { trace_key_slot(call); }
void run_autograd(const CallArgs& call) { autograd_key_slot(call); }

// ---- building

uint64_t tags_of(const OpEntry& op) {
  const OpDef& def = *op.def;
  uint64_t tags = static_cast<uint64_t>(def.tags) & 0xFFFFFF;  // those that plugins know
  if (def.formula) tags |= TN_TAG_POINTWISE;
  if (def.view) tags |= TN_TAG_VIEW;
  if (op.mutated_args) tags |= TN_TAG_INPLACE;
  if (def.core) tags |= TN_TAG_CORE;
  // What a kernel of another author looks at is not known.
  if ((def.tags & OpTags::by_place) || (def.custom && !def.formula)) tags |= TN_TAG_BY_PLACE;
  if (def.formula && rounds_numbers(op.schema)) tags |= TN_TAG_ROUNDS_NUMBERS;
  for (const SchemaArg& arg : op.schema.args)
    if (arg.type.base == BaseType::graph) tags |= TN_TAG_HIGHER_ORDER;
  return tags;
}

void finish_entry(OpEntry& op) {
  op.name = op.schema.canonical_name();
  op.n_args = static_cast<uint32_t>(op.schema.args.size());
  op.n_returns = static_cast<uint32_t>(op.schema.returns.size());
  for (uint32_t i = 0; i < op.n_args; ++i)
    if (op.schema.args[i].mutated()) op.mutated_args |= uint64_t{1} << i;
  if (op.n_returns) op.returned_arg = static_cast<int8_t>(op.schema.returned_arg(0));
  if (op.returned_arg >= 0 && !(op.mutated_args >> op.returned_arg & 1)) op.returned_arg = -1;
  op.device_of_factory = device_of_factory(op.schema);
  op.tags = tags_of(op);
  op.by_key[static_cast<size_t>(Key::cpu)] = reference_kernel(op);
  op.by_key[static_cast<size_t>(Key::device)] = device_kernel(op);
  op.by_key[static_cast<size_t>(Key::meta)] = &run_meta;
  op.by_key[static_cast<size_t>(Key::trace)] = &run_trace;
  op.by_key[static_cast<size_t>(Key::autograd)] = &run_autograd;
  op.by_key[static_cast<size_t>(Key::autocast)] = &run_autocast;
  op.by_key[static_cast<size_t>(Key::defaults)] = &run_on_default_device;
}

OpEntry& insert(Table& table, Schema schema, const OpDef* def, const OpEntry* functional,
                bool out_form = false) {
  size_t id = table.size.load(std::memory_order_relaxed);
  require(id < max_ops, "the op table is full: it holds {} ops", max_ops);
  std::string name = schema.canonical_name();
  require(!table.by_name.contains(name), "op {} is defined twice", name);
  OpEntry& op = table.entries.emplace_back();
  op.id = static_cast<OpId>(id);
  op.schema = std::move(schema);
  op.def = def;
  op.functional = functional;
  op.out_form = out_form;
  finish_entry(op);
  table.by_name.emplace(op.name, &op);
  table.by_id[id] = &op;
  table.size.store(id + 1, std::memory_order_release);
  return op;
}

void insert_row(Table& table, const OpDef& def) {
  OpEntry& op = insert(table, parse_schema(def.schema), &def, nullptr);
  if (def.variants == Variants::in_place)
    op.in_place = &insert(table, in_place_schema(op.schema), &def, &op);
}

// Ids are positions in the sorted list of names, as opgen numbers them.
Table* build() {
  auto* unsorted = new Table;
  for (size_t f = 0; f < n_op_families; ++f)
    for (size_t r = 0; r < op_families[f]->size; ++r)
      insert_row(*unsorted, op_families[f]->rows[r]);
  std::vector<OpEntry*> order;
  for (OpEntry& op : unsorted->entries) order.push_back(&op);
  std::sort(order.begin(), order.end(), [](OpEntry* a, OpEntry* b) { return a->name < b->name; });
  for (size_t i = 0; i < order.size(); ++i) {
    order[i]->id = static_cast<OpId>(i);
    unsorted->by_id[i] = order[i];
  }
  const OpFamily& with_bodies = ops::op_family_graph_control_flow;
  for (size_t r = 0; r < with_bodies.size; ++r) insert_row(*unsorted, with_bodies.rows[r]);
  return unsorted;
}

Table& table() {
  static Table* const instance = build();
  return *instance;
}

Value stored_default(const DefaultValue& d) {
  using Kind = DefaultValue::Kind;
  switch (d.kind) {
    case Kind::integer:
      return Value::of(d.integer);
    case Kind::floating:
      return Value::of(d.floating);
    case Kind::boolean:
      return Value::of(d.boolean);
    case Kind::text:
      return Value::of(std::string_view(d.text));
    case Kind::ints:
      return Value::of(IntList(d.ints));
    case Kind::floats:
      return Value::of(DoubleList(d.floats));
    case Kind::bools:
      return Value::pointer(Tag::bools, d.bools.data(), d.bools.size());
    default:
      return {};
  }
}

}  // namespace

size_t op_count() { return table().size.load(std::memory_order_acquire); }

const OpEntry& entry_of(OpId op) { return *table().by_id[static_cast<size_t>(op)]; }

bool (*missing_op_slot)(std::string_view name) = nullptr;

namespace {

const OpEntry* find_known(std::string_view name) {
  Table& t = table();
  std::lock_guard lock(t.adding);
  auto found = t.by_name.find(name);
  return found == t.by_name.end() ? nullptr : found->second;
}

}  // namespace

namespace {

// The out form of a functional row, made when it is first asked for. Rows whose results are lists,
// views or numbers have none.
const OpEntry* derive_out_form(std::string_view name) {
  for (const OutFormOf& candidate : functional_names(name)) {
    const OpEntry* row = find_known(candidate.functional);
    if (!row || row->functional || row->mutated_args || row->def->view) continue;
    std::optional<Schema> schema = out_form_schema(name, *row, candidate);
    if (!schema) continue;
    Table& t = table();
    std::lock_guard lock(t.adding);
    auto made = t.by_name.find(name);  // another thread may have been first
    return made != t.by_name.end() ? made->second
                                   : &insert(t, std::move(*schema), row->def, row, true);
  }
  return nullptr;
}

}  // namespace

const OpEntry* find_op(std::string_view name) {
  const OpEntry* known = find_known(name);
  if (!known) known = derive_out_form(name);
  if (!known) known = functional_copy_form(name);
  if (known || name.starts_with("aten.") || !missing_op_slot) return known;
  return missing_op_slot(name) ? find_known(name) : nullptr;
}

const OpEntry* find_added_op(std::string_view name) { return find_known(name); }

std::vector<std::string> all_op_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < op_count(); ++i) names.push_back(entry_of(static_cast<OpId>(i)).name);
  std::sort(names.begin(), names.end());
  return names;
}

OpId op_id(std::string_view name) {
  if (const OpEntry* op = find_op(name)) return op->id;
  fail(ErrorCode::unsupported, "there is no op {}; the nearest are {}", name,
       nearest_names(name, all_op_names()));
}

bool updates_statistics(const OpEntry& op, std::span<const Value> args) {
  if (!(op.def->tags & OpTags::updates_statistics) || args.size() < 6) [[likely]]
    return false;
  return !args[3].is_none() && !args[4].is_none() && args[5].number().to_bool();
}

const std::string& name_of(OpId op) { return entry_of(op).name; }

const OpEntry& add_op(const OpDef* row) {
  return add_op(row, [](const OpEntry&) {});
}

const OpEntry& add_op(const OpDef* row, FunctionRef<void(const OpEntry&)> prepare) {
  Table& t = table();
  std::lock_guard lock(t.adding);
  insert_row(t, *row);
  const OpEntry& op = *t.by_name.at(parse_schema(row->schema).canonical_name());
  prepare(op);
  return op;
}

void add_foreign_kernel(OpId id, ForeignKernel kernel) {
  Table& t = table();
  std::lock_guard lock(t.adding);
  OpEntry& op = *t.by_id[static_cast<size_t>(id)];
  // A longer list; the old one is leaked, since a call may still look through it.
  std::span<const ForeignKernel> known = op.foreign_kernels();
  auto* list = new std::vector<ForeignKernel>(known.begin(), known.end());
  auto at = std::find_if(list->begin(), list->end(),
                         [&](const ForeignKernel& k) { return k.priority < kernel.priority; });
  list->insert(at, kernel);
  op.foreign.store(list, std::memory_order_release);
  if (kernel.device == DeviceType::cpu)
    std::atomic_ref(op.by_key[static_cast<size_t>(Key::cpu)]).store(&run_foreign_first);
}

Value default_of(const OpEntry& op, size_t arg) {
  const SchemaArg& a = op.schema.args[arg];
  const DefaultValue& d = a.default_value;
  if (d.kind != DefaultValue::Kind::word) return stored_default(d);
  switch (a.type.base) {
    case BaseType::memory_format:
      return Value::of(static_cast<MemoryFormat>(d.integer));
    case BaseType::scalar_type:
      return Value::of(static_cast<Dtype>(d.integer));
    case BaseType::layout:
      return Value::of(static_cast<Layout>(d.integer));
    case BaseType::device:
      return Value::of(Device(static_cast<DeviceType>(d.integer)));
    default:
      return Value::of(d.integer);
  }
}

static bool has_mask(const Value& indices) {
  bool has = false;
  each_tensor(indices, [&](const Tensor& t) { has = has || is_mask(t); });
  return has;
}

bool gives_what_data_decides(const CallArgs& call) {
  const OpEntry& row = call.op->functional ? *call.op->functional : *call.op;
  const bool is_tagged = (call.op->tags & TN_TAG_DATA_DEPENDENT) != 0;
  if (!row.def->sized_by) return is_tagged;
  for (uint32_t i = 0; i < call.n_args; ++i) {
    if (call.op->schema.args[i].name != row.def->sized_by) continue;
    if (!is_tagged) return has_mask(call.args[i]);
    if (!call.args[i].is_number()) continue;
    Number size = call.args[i].number();
    return !size.is_symbolic() && size.to_int() < 0;
  }
  return is_tagged;
}

namespace {

void put_tensor(Value& slot, const TensorMeta& meta, bool fake) {
  slot = !meta.defined ? Value{} : Value::own(fake ? make_fake(meta) : make_tensor(meta));
}

}  // namespace

void put_metas(const OpEntry& op, Metas& metas, bool fake, Value* results) {
  if (!op.schema.returns_list()) {
    for (size_t i = 0; i < metas.size(); ++i) put_tensor(results[i], metas[i], fake);
    return;
  }
  std::vector<Tensor> parts;
  for (size_t i = 0; i < metas.size(); ++i)
    parts.push_back(fake ? make_fake(metas[i]) : make_tensor(metas[i]));
  results[0] = Value::own(std::move(parts));
}

// Tensors have brought the call here, and none of them is recorded on this thread.
static void refuse_foreign_fakes(const CallArgs& call) {
  for (uint32_t i = 0; i < call.n_args; ++i)
    each_tensor(call.args[i], [&](const Tensor& t) { require_own_thread(t, call.op->name); });
}

void run_meta(const CallArgs& call) {
  if (!(thread_modes.include & bit(Key::meta))) refuse_foreign_fakes(call);
  FakeScope fakes;
  const OpEntry& op = *call.op;
  const OpDef& def = *op.def;
  if (op.out_form) return reference_kernel(op)(call);
  if (op.functional) return check_derived_in_place(call), return_mutated(call);
  if (def.view) return run_view(call);
  if (is_complex_form(call)) return run_complex(call);
  if (def.meta.metas) {
    Metas metas;
    def.meta.metas(call, metas);
    put_metas(op, metas, true, call.results);
  } else if (def.meta.scalars) {
    def.meta.scalars(call);
  } else if (def.formula) {
    Metas metas;
    pointwise_meta(call, metas);
    put_metas(op, metas, true, call.results);
  } else if (def.decomp) {
    def.decomp.call(call);
  } else {
    fail(ErrorCode::unsupported, "{} cannot run on fake tensors: its row has no meta function",
         op.name);
  }
  return_mutated(call);
}

namespace {

bool has_undefined(const Value& arg) {
  if (arg.tag != Tag::tensors) return arg.is_none();
  TensorList list(arg.as<Tensor>(), arg.count);
  return std::ranges::any_of(list, [](const Tensor& t) { return !t.defined(); });
}

bool takes_undefined(const SchemaType& type) {
  return type.base != BaseType::tensor || (type.is_list ? type.optional_element : type.optional);
}

[[noreturn, gnu::cold, gnu::noinline]] void fail_undefined(const OpEntry& op, const Value& arg,
                                                           const std::string& name) {
  fail(ErrorCode::invalid_argument,
       "{}: argument {} {} undefined tensor, expected one that is there; a Tensor without a value "
       "and grad() before the first backward pass are undefined",
       op.name, name, arg.is_none() ? "is an" : "holds an");
}

/// An undefined tensor has no memory and no sizes: what is behind would read through a null pointer.
void refuse_undefined(const OpEntry& op, const Value* args, uint32_t n_args) {
  for (uint32_t i = 0; i < n_args; ++i)
    if (has_undefined(args[i]) && !takes_undefined(op.schema.args[i].type)) [[unlikely]]
      fail_undefined(op, args[i], op.schema.args[i].name);
}

}  // namespace

void (*first_call_slot)() = nullptr;
void (*provider_slot)(const CallArgs&) = nullptr;

namespace {

std::atomic<bool> has_prepared{false};

// Attaches the kernels of plugins, before any thread computes with others; this one may call ops.
[[gnu::noinline]] void prepare_first_call() {
  static std::recursive_mutex preparing;
  static bool has_begun = false;
  std::lock_guard lock(preparing);
  if (std::exchange(has_begun, true)) return;
  if (first_call_slot) first_call_slot();
  has_prepared.store(true, std::memory_order_release);
}

}  // namespace

void dispatch(const OpEntry& op, const Value* args, uint32_t n_args, Value* results,
              uint32_t n_results) {
  if (!has_prepared.load(std::memory_order_acquire)) [[unlikely]]
    prepare_first_call();
  refuse_undefined(op, args, n_args);
  CallArgs call{&op, args, results, n_args, n_results};
  auto is_symbolic = [](const Value& arg) {
    bool may_be = arg.is_number() || arg.tag == Tag::ints;  // most are tensors
    return may_be && arg.is_symbolic();
  };
  if (has_kept_values() && std::any_of(args, args + n_args, is_symbolic) &&
      call_with_kept_values(call)) [[unlikely]]
    return;
  uint64_t keys =
      (keys_of(args, n_args) | thread_modes.include | bit(Key::cpu)) & ~thread_modes.exclude;
  // Kernels of plugins are attached while others call.
  auto& run = const_cast<BoxedFn&>(op.by_key[63 - std::countl_zero(keys)]);
  std::atomic_ref(run).load(std::memory_order_relaxed)(call);
}

void call_op(OpId op, const Value* args, uint32_t n_args, Value* results, uint32_t n_results) {
  dispatch(entry_of(op), args, n_args, results, n_results);
}

}  // namespace tenon

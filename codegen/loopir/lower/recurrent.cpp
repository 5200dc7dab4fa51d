// Recurrent layers: for each, one product of all inputs for a direction, then its steps as one item.
#include "loopir/lowering.h"

#include <algorithm>

namespace loopir {

using tenon::plugin::node;

namespace {

using Cell = Recurrence::Cell;

int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

/// In memory, with dense rows.
View rows_of(Lowering& to, const Tensor& t, const char* name) {
  std::optional<View> view = to.as_view(t);
  if (view && (to.x.is(view->strides.back(), 1) || to.x.is(t.sizes.back(), 1))) {
    view->strides.back() = to.x.constant(1);
    return *view;
  }
  Id buffer = to.new_buffer(t.dtype, t.sizes, to.contiguous(t.sizes), name);
  return *to.as_view(to.stored(t, buffer, name));
}

/// view[index] of its first dimension.
View part_of(Expressions& x, const View& v, Id index) {
  return {v.buffer,
          x.add(v.offset, x.multiply(index, v.strides[0])),
          {v.sizes.begin() + 1, v.sizes.end()},
          {v.strides.begin() + 1, v.strides.end()}};
}

/// What one call of the op says.
struct Layers {
  Cell cell;
  std::vector<Tensor> params;
  bool has_biases, is_batch_first;
  int64_t layers, directions;
  View state;  // [layers * directions, batch, size]
  std::optional<View> memory;
  std::string name;

  Id size() const { return state.sizes[2]; }
  size_t per_direction() const { return has_biases ? 4 : 2; }
  const Tensor& param(int64_t layer, int64_t direction, size_t which) const {
    return params[static_cast<size_t>(layer * directions + direction) * per_direction() + which];
  }
};

/// The lowering of one call.
class RecurrentLowering {
 public:
  RecurrentLowering(Lowering& to, Layers layers)
      : to_(to), x_(to.x), l_(std::move(layers)), name_(l_.name.c_str()) {}

  void run(const node& n, const Tensor& input) {
    steps_ = input.sizes[l_.is_batch_first ? 1 : 0];
    batch_ = input.sizes[l_.is_batch_first ? 0 : 1];
    width_ = x_.multiply(x_.constant(l_.directions), l_.size());
    last_state_ = new_whole({l_.state.sizes[0], batch_, l_.size()});
    if (l_.memory) last_memory_ = new_whole(l_.memory->sizes);
    View source = rows_of(to_, input, name_), result;
    for (int64_t layer = 0; layer < l_.layers; ++layer) {
      result = new_whole({steps_, batch_, width_});
      Recurrence r{l_.cell, {}, l_.name};
      bool by_batch = l_.is_batch_first && layer == 0;
      for (int64_t d = 0; d < l_.directions; ++d)
        r.directions.push_back(direction(source, by_batch, result, layer, d));
      to_.program.steps.push_back(std::move(r));
      source = result;
    }
    Tensor output = to_.over(result.buffer);
    if (l_.is_batch_first)
      output = to_.make(TN_F32, {batch_, steps_, width_}, [&](std::span<const Id> i) {
        return to_.at(to_.over(result.buffer), Ids{i[1], i[0], i[2]});
      });
    to_.set(n.first_result, output);
    to_.set(n.first_result + 1, to_.over(last_state_.buffer));
    if (l_.memory) to_.set(n.first_result + 2, to_.over(last_memory_->buffer));
  }

 private:
  View new_whole(const Ids& sizes) {
    return to_.whole(to_.new_buffer(TN_F32, sizes, to_.contiguous(sizes), name_));
  }

  /// The first two dimensions of a view as one.
  View as_matrix(View v) {
    if (!x_.is(v.sizes[0], 1) && !x_.is(v.sizes[1], 1) &&
        v.strides[0] != x_.multiply(v.strides[1], v.sizes[1])) {
      Id buffer = to_.new_buffer(TN_F32, v.sizes, to_.contiguous(v.sizes), name_);
      to_.stored(over(v), buffer, name_);
      v = to_.whole(buffer);
    }
    Id row = x_.is(v.sizes[1], 1) ? v.strides[0] : v.strides[1];
    return {
        v.buffer, v.offset, {x_.multiply(v.sizes[0], v.sizes[1]), v.sizes[2]}, {row, v.strides[2]}};
  }
  Tensor over(const View& v) {
    return to_.make(TN_F32, v.sizes, [&](std::span<const Id> i) {
      Id at = v.offset;
      for (size_t d = 0; d < i.size(); ++d) at = x_.add(at, x_.multiply(i[d], v.strides[d]));
      return x_.load(v.buffer, at, TN_F32);
    });
  }

  /// What the input gives to the gates of all steps: [steps, batch, gates * size].
  View input_product(const View& source, bool by_batch, int64_t layer, int64_t d) {
    const View weights = to_.view_of(l_.param(layer, d, 0), name_);
    Product p;
    p.name = l_.name;
    p.left = as_matrix(source);
    p.right = {weights.buffer,
               weights.offset,
               {weights.sizes[1], weights.sizes[0]},
               {weights.strides[1], weights.strides[0]}};
    if (l_.has_biases) p.bias = to_.view_of(l_.param(layer, d, 2), name_);
    View made = new_whole({source.sizes[0], source.sizes[1], weights.sizes[0]});
    p.result = as_matrix(made);
    to_.program.steps.push_back(std::move(p));
    if (by_batch)
      std::swap(made.sizes[0], made.sizes[1]), std::swap(made.strides[0], made.strides[1]);
    return made;
  }

  RecurrentDirection direction(const View& source, bool by_batch, const View& result, int64_t layer,
                               int64_t d) {
    RecurrentDirection out;
    Id index = x_.constant(layer * l_.directions + d);
    out.input = input_product(source, by_batch, layer, d);
    out.weights = to_.view_of(l_.param(layer, d, 1), name_);
    if (l_.has_biases) out.bias = rows_of(to_, l_.param(layer, d, 3), name_);
    out.state = part_of(x_, l_.state, index);
    out.last_state = part_of(x_, last_state_, index);
    if (l_.memory) out.cell = part_of(x_, *l_.memory, index);
    if (last_memory_) out.last_cell = part_of(x_, *last_memory_, index);
    out.result = result;
    out.result.offset = x_.multiply(x_.constant(d), l_.size());
    out.result.sizes[2] = l_.size();
    out.is_backward = d == 1;
    return out;
  }

  Lowering& to_;
  Expressions& x_;
  Layers l_;
  const char* name_;
  Id steps_ = none, batch_ = none, width_ = none;
  View last_state_;
  std::optional<View> last_memory_;
};

std::vector<Tensor> tensors_of(Lowering& to, const tn_arg& a) {
  std::vector<Tensor> out;
  for (uint32_t i = 0; a.kind == TN_ARG_VALUES && i < a.count; ++i)
    if (a.u.values[i] != TN_NO_VALUE && to.tensors[a.u.values[i]])
      out.push_back(*to.tensors[a.u.values[i]]);
  return out;
}

bool is_f32(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const Tensor& t) { return t.dtype == TN_F32; });
}

/// Whether all shapes are provably those of layers without projections: items run over them
/// unchecked.
bool have_fitting_shapes(Lowering& to, const Tensor& input, const std::vector<Tensor>& states,
                         const Layers& l) {
  if (l.layers < 1 || input.ndim() != 3 || states[0].ndim() != 3) return false;
  Ids state = {to.x.constant(l.layers * l.directions), input.sizes[l.is_batch_first ? 0 : 1],
               states[0].sizes[2]};
  for (const Tensor& t : states)
    if (t.sizes != state) return false;
  Id size = state[2], gates = to.x.multiply(to.x.constant(gates_of(l.cell)), size);
  for (int64_t layer = 0; layer < l.layers; ++layer)
    for (int64_t d = 0; d < l.directions; ++d) {
      Id width = layer == 0 ? input.sizes[2] : to.x.multiply(to.x.constant(l.directions), size);
      if (l.param(layer, d, 0).sizes != Ids{gates, width} ||
          l.param(layer, d, 1).sizes != Ids{gates, size})
        return false;
      for (size_t bias = 2; bias < l.per_direction(); ++bias)
        if (l.param(layer, d, bias).sizes != Ids{gates}) return false;
    }
  return true;
}

template <Cell cell>
bool recurrent(Lowering& to, const node& n) {
  const Tensor input = to.tensor_arg(n.args[0]);
  std::vector<Tensor> states = tensors_of(to, n.args[1]);
  if (to.is_tensor(n.args[1])) states.push_back(to.tensor_arg(n.args[1]));
  std::string name = to.name_of(n.first_result);
  Layers l{cell,
           tensors_of(to, n.args[2]),
           int_arg(n.args[3]) != 0,
           int_arg(n.args[8]) != 0,
           int_arg(n.args[4]),
           int_arg(n.args[7]) ? 2 : 1,
           {},
           {},
           name};
  bool drops = int_arg(n.args[6]) && number_arg(n.args[5]) != 0 && l.layers > 1;
  size_t expected = static_cast<size_t>(l.layers * l.directions) * l.per_direction();
  if (drops || l.params.size() != expected || states.size() != (cell == Cell::lstm ? 2 : 1) ||
      input.dtype != TN_F32 || !is_f32(states) || !is_f32(l.params) ||
      !have_fitting_shapes(to, input, states, l))
    return false;
  l.state = rows_of(to, states[0], name.c_str());
  if (cell == Cell::lstm) l.memory = rows_of(to, states[1], name.c_str());
  RecurrentLowering(to, std::move(l)).run(n, input);
  return true;
}

constexpr Rule recurrent_table[] = {
    {"aten.lstm.input", recurrent<Cell::lstm>},
    {"aten.gru.input", recurrent<Cell::gru>},
    {"aten.rnn_tanh.input", recurrent<Cell::tanh>},
    {"aten.rnn_relu.input", recurrent<Cell::relu>},
};

}  // namespace

std::span<const Rule> recurrent_rules() { return recurrent_table; }

}  // namespace loopir

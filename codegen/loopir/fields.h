// The fields of a program that its calls read, for writing and reading them alike.
//
// fields(v, x) hands each field of x to the visitor v once, in a fixed order: a new field of a
// struct is a line here, and both directions know it. What is used only while code is made (the
// values of kernels, names of loops) is not part of it. A visitor takes
//
//   v(x)                 numbers, texts, containers, and structs with fields of their own
//   v.choice(x, last)    an enumerator, at most `last`
//   v.index(x), v.indices(x)    ids of index expressions; none where there is none
//   v.buffer(x), v.buffers(x)   ids of buffers that exist; v.maybe_buffer(x): or none
//   v.buffers_known(n)   how many buffers there are, before the first id of one
//   v.expressions(x)     the pool that index ids are of
#pragma once

#include "kernel.h"

namespace loopir {

template <class V, class... Field>
void each(V& v, Field&... field) {
  (v(field), ...);
}

template <class V>
void fields(V& v, Buffer& b) {
  v.choice(b.place, Buffer::Place::number);
  each(v, b.slot, b.dtype);
  v.indices(b.sizes);
  v.indices(b.strides);
  v(b.name);
  v.maybe_buffer(b.shows);
}

template <class V>
void fields(V& v, View& view) {
  v.maybe_buffer(view.buffer);
  v.index(view.offset);
  v.indices(view.sizes);
  v.indices(view.strides);
}

template <class V>
void fields(V& v, EpilogueOp& op) {
  v.choice(op.kind, EpilogueOp::Kind::gelu_tanh);
  v(op.operand);
}

template <class V>
void fields(V& v, Product& p) {
  each(v, p.left, p.right, p.result, p.bias, p.alpha);
  v.choice(p.way, last_way);
  each(v, p.epilogue, p.name);
}

template <class V>
void fields(V& v, Convolution& c) {
  each(v, c.dtype, c.source, c.weights, c.result, c.bias, c.stride, c.padding, c.dilation, c.groups,
       c.may_transform);
  v.choice(c.way, last_way);
  each(v, c.epilogue, c.name);
}

template <class V>
void fields(V& v, ConvolutionGradient& g) {
  each(v, g.dtype, g.of_weights, g.gradient, g.operand, g.result, g.stride, g.padding, g.dilation,
       g.groups, g.name);
}

template <class V>
void fields(V& v, Attention& a) {
  each(v, a.query, a.key, a.value, a.result, a.mask, a.mask_dtype, a.is_causal, a.scale, a.log_sums,
       a.name);
}

template <class V>
void fields(V& v, AttentionGradient& g) {
  each(v, g.of, g.gradient, g.of_query, g.of_key, g.of_value, g.name);
}

template <class V>
void fields(V& v, RecurrentDirection& d) {
  each(v, d.input, d.weights, d.bias, d.state, d.last_state, d.cell, d.last_cell, d.result,
       d.is_backward);
}

template <class V>
void fields(V& v, Recurrence& r) {
  v.choice(r.cell, Recurrence::Cell::relu);
  each(v, r.directions, r.name);
}

/// Its arguments are the runtime's to keep.
template <class V>
void fields(V& v, Extern& e) {
  v(e.name);
}

/// Its code is all that runs.
template <class V>
void fields(V& v, Kernel& k) {
  v(k.name);
}

template <class V>
void fields(V& v, Access& a) {
  v.buffers(a.reads);
  v.buffers(a.writes);
}

template <class V>
void fields(V& v, Real& r) {
  v.choice(r.op, Real::Op::first_block);
  v(r.number);
  v.index(r.index);
  each(v, r.a, r.b);
}

template <class V>
void fields(V& v, Output& o) {
  v.choice(o.kind, Output::Kind::view);
  v(o.view);
}

template <class V>
void fields(V& v, Symbol& s) {
  each(v, s.hint, s.lower, s.upper, s.name);
}

/// All but the constants, which their owner binds again.
template <class V>
void fields(V& v, Program& p) {
  v.expressions(p.expressions);
  v(p.buffers);
  v.buffers_known(p.buffers.size());
  each(v, p.outputs, p.reals, p.is_static_input, p.n_inputs, p.n_symbols, p.views_removed);
  v.maybe_buffers(p.memory_of);
}

}  // namespace loopir

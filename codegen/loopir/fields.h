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

template <class V>
void fields(V& v, Buffer& b) {
  v.choice(b.place, Buffer::Place::scratch);
  v(b.slot);
  v(b.dtype);
  v.indices(b.sizes);
  v.indices(b.strides);
  v(b.name);
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
  v.choice(op.kind, EpilogueOp::Kind::add);
  v(op.operand);
}

template <class V>
void fields(V& v, Product& p) {
  v(p.left);
  v(p.right);
  v(p.result);
  v(p.bias);
  v(p.alpha);
  v.choice(p.way, last_way);
  v(p.epilogue);
  v(p.name);
}

template <class V>
void fields(V& v, Convolution& c) {
  v(c.dtype);
  v(c.source);
  v(c.weights);
  v(c.result);
  v(c.bias);
  v(c.stride);
  v(c.padding);
  v(c.dilation);
  v(c.groups);
  v(c.may_transform);
  v.choice(c.way, last_way);
  v(c.epilogue);
  v(c.name);
}

template <class V>
void fields(V& v, ConvolutionGradient& g) {
  v(g.dtype);
  v(g.of_weights);
  v(g.gradient);
  v(g.operand);
  v(g.result);
  v(g.stride);
  v(g.padding);
  v(g.dilation);
  v(g.groups);
  v(g.name);
}

template <class V>
void fields(V& v, Attention& a) {
  v(a.query);
  v(a.key);
  v(a.value);
  v(a.result);
  v(a.mask);
  v(a.mask_dtype);
  v(a.is_causal);
  v(a.scale);
  v(a.name);
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
void fields(V& v, Output& o) {
  v.choice(o.kind, Output::Kind::view);
  v(o.view);
}

template <class V>
void fields(V& v, Symbol& s) {
  v(s.hint);
  v(s.lower);
  v(s.upper);
  v(s.name);
}

/// All but the constants, which their owner binds again.
template <class V>
void fields(V& v, Program& p) {
  v.expressions(p.expressions);
  v(p.buffers);
  v.buffers_known(p.buffers.size());
  v(p.outputs);
  v(p.is_static_input);
  v(p.n_inputs);
  v(p.n_symbols);
  v(p.views_removed);
  v.maybe_buffers(p.memory_of);
}

}  // namespace loopir

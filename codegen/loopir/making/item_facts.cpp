// Kind, name, bytes and operations of items.
#include "item_facts.h"

#include "loopir/memory.h"

#include <algorithm>
#include <set>

namespace loopir {

namespace {

struct Facts {
  const Expressions& x;

  int64_t elements(const Ids& sizes) const {
    int64_t n = 1;
    for (Id s : sizes) n *= x.hint(s);
    return n;
  }

  ItemFacts operator()(const Kernel& k) const { return {"kernel", k.name}; }
  ItemFacts operator()(const Product& p) const {
    return {"product", p.name, 0, 2 * elements(p.result.sizes) * x.hint(p.left.sizes.back())};
  }
  ItemFacts operator()(const Convolution& c) const {
    int64_t taps = elements(c.weights.sizes) / std::max<int64_t>(x.hint(c.weights.sizes[0]), 1);
    return {"convolution", c.name, 0, 2 * elements(c.result.sizes) * taps};
  }
  ItemFacts operator()(const ConvolutionGradient& g) const {
    const View& weights = g.of_weights ? g.result : g.operand;
    int64_t taps = elements(weights.sizes) / std::max<int64_t>(x.hint(weights.sizes[0]), 1);
    return {"convolution gradient", g.name, 0, 2 * elements(g.gradient.sizes) * taps};
  }
  ItemFacts operator()(const Attention& a) const {
    int64_t scores = elements(a.query.sizes) / std::max<int64_t>(x.hint(a.query.sizes[3]), 1) *
                     x.hint(a.key.sizes[2]);
    int64_t flops = 2 * scores * (x.hint(a.query.sizes[3]) + x.hint(a.value.sizes[3]));
    return {"attention", a.name, 0, a.is_causal ? flops / 2 : flops};
  }
  ItemFacts operator()(const AttentionGradient& g) const {
    // Five products where the forward has two.
    return {"attention gradients", g.name, 0, (*this)(g.of).flops / 2 * 5};
  }
  ItemFacts operator()(const Recurrence& r) const {
    int64_t flops = 0;
    for (const RecurrentDirection& d : r.directions)
      flops += 2 * elements(d.input.sizes) * x.hint(d.state.sizes[1]);
    return {"recurrence", r.name, 0, flops};
  }
  ItemFacts operator()(const Extern& e) const { return {"extern", e.name}; }
};

}  // namespace

ItemFacts facts_of(const Program& program, const Item& item, const Access& access) {
  ItemFacts out = std::visit(Facts{program.expressions}, item);
  std::vector<int64_t> hints;
  for (const Symbol& s : program.expressions.symbols) hints.push_back(s.hint);
  std::set<Id> buffers(access.reads.begin(), access.reads.end());
  buffers.insert(access.writes.begin(), access.writes.end());
  for (Id b : buffers)
    if (program.buffers[b].place != Buffer::Place::scratch)
      out.bytes += bytes_of(program, program.buffers[b], hints);
  return out;
}

}  // namespace loopir

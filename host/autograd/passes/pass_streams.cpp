// Ordering the streams of a pass.
#include "autograd/passes/pass_streams.h"

#include "core/error.h"

#include <algorithm>

namespace tenon::autograd {

namespace {

bool is_on_device(const Tensor& t) {
  DeviceType type = t.device().type;
  return !t.is_fake() && type != DeviceType::cpu && type != DeviceType::meta;
}

// The memory goes back behind what `taker` does with it.
void use_on(const Tensor& t, const Stream& taker) {
  if (t.device().type == taker.device().type) record_stream(t, taker);
}

}  // namespace

PassStreams::PassStreams() : chosen_(are_streams_chosen()) {
  if (chosen_) callers_ = chosen_streams();
}

PassStreams::~PassStreams() {
  try {
    finish();
  } catch (const Error&) {
    // The device is lost; the error that ended the pass says so, or the next call does.
  }
}

// The same choice is often made anew.
static bool are_same(const StreamChoicePtr& a, const StreamChoicePtr& b) {
  if (a == b) return true;
  auto size = [](const StreamChoicePtr& c) { return c ? c->streams.size() : 0; };
  return size(a) == size(b) && (!a || std::ranges::equal(a->streams, b->streams));
}

bool PassStreams::is_elsewhere(const Node& node) const { return !are_same(node.streams, callers_); }

StreamChoiceScope PassStreams::enter(const Node& node) {
  if (!chosen_ || !is_elsewhere(node)) return StreamChoiceScope();
  auto come_to = [&](Device device) {
    Stream stream = stream_under(node.streams, device), callers = stream_under(callers_, device);
    if (stream == callers || std::ranges::find(used_, stream) != used_.end()) return;
    order_streams(callers, stream);
    used_.push_back(stream);
  };
  for (const StreamChoicePtr& choice : {node.streams, callers_})
    if (choice)
      for (const auto& [device, stream] : choice->streams) come_to(device);
  return StreamChoiceScope(node.streams);
}

void PassStreams::hand_over(const Tensor& grad, const Node* from, const Node& to) {
  if (!chosen_ || !is_on_device(grad)) return;
  Stream maker = stream_under(from ? from->streams : callers_, grad.device());
  Stream taker = stream_under(to.streams, grad.device());
  if (maker == taker) return;
  order_streams(maker, taker);
  use_on(grad, taker);
}

void PassStreams::give_to_caller(const Tensor& grad, const Node& from) {
  if (!chosen_ || !grad.defined() || !is_on_device(grad) || !is_elsewhere(from)) return;
  use_on(grad, stream_under(callers_, grad.device()));
}

void PassStreams::finish() {
  for (const Stream& stream : used_) order_streams(stream, stream_under(callers_, stream.device()));
  used_.clear();
}

}  // namespace tenon::autograd

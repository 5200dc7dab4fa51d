// Streams of the double: which of them works next is drawn from the seed.
#include "streams.h"

#include "graphs.h"

#include <vector>

namespace fake_cuda {

namespace api = tenon::cuda::api;

StreamState::~StreamState() = default;

bool Streams::break_captures() {
  bool found = false;
  for (StreamState* s : all_) {
    if (!s->capture) continue;
    found = s->is_capture_broken = true;
  }
  return found;
}

StreamState* Streams::make(int device) {
  auto* stream = new StreamState;
  stream->device = device;
  all_.insert(stream);
  return stream;
}

void Streams::destroy(StreamState* stream) {
  run_until([&] { return stream->queue.empty(); });
  all_.erase(stream);
  delete stream;
}

StreamState* Streams::standard(int device) {
  if (!standard_[device]) standard_[device] = make(device);
  return standard_[device];
}

std::vector<StreamState*> Streams::runnable() const {
  std::vector<StreamState*> out;
  for (StreamState* s : all_)
    if (!s->queue.empty() && (!s->queue.front().ready || s->queue.front().ready()))
      out.push_back(s);
  return out;
}

Result Streams::step() {
  std::vector<StreamState*> able = runnable();
  if (able.empty()) return api::success;
  StreamState* chosen = able[random_() % able.size()];
  Work work = std::move(chosen->queue.front());
  chosen->queue.pop_front();
  clock_ += 1;
  return work.run ? work.run() : api::success;
}

Result Streams::run_until(const std::function<bool()>& done) {
  while (!done()) {
    if (runnable().empty()) return api::error_launch_timeout;
    if (Result failed = step()) return failed;
  }
  return api::success;
}

}  // namespace fake_cuda

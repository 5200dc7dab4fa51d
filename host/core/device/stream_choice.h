// The streams that a thread has chosen, to be taken up again by other work.
#pragma once

#include <tenon/devices.h>

#include <memory>
#include <utility>
#include <vector>

namespace tenon {

/// What a thread has chosen by stream guards; devices that are not in it have the stream that all
/// threads begin with. Never changes once made.
struct StreamChoice {
  std::vector<std::pair<Device, Stream>> streams;
};
/// Null: nothing is chosen. Threads: any.
using StreamChoicePtr = std::shared_ptr<const StreamChoice>;

StreamChoicePtr chosen_streams();
/// Whether any thread has chosen a stream since the process began: until then all work of a device
/// is in one queue.
bool are_streams_chosen();
/// The stream of a device under a choice.
Stream stream_under(const StreamChoicePtr& choice, Device device);

/// A choice is the thread's own while one lives; one made without does nothing.
class StreamChoiceScope {
 public:
  StreamChoiceScope() = default;
  explicit StreamChoiceScope(StreamChoicePtr choice);
  ~StreamChoiceScope();
  StreamChoiceScope(const StreamChoiceScope&) = delete;

 private:
  bool acts_ = false;
  StreamChoicePtr before_;
};

/// What is enqueued on `later` from now on begins after what is on `earlier` by now.
void order_streams(const Stream& earlier, const Stream& later);

}  // namespace tenon

// Recordings of devices: what the host asks of the plugin that keeps them (tenon.cuda/1).
#pragma once

namespace tenon {

/// A new iteration of the program begins: recordings may use the memory of earlier results again.
/// Loads nothing; does nothing where no plugin keeps recordings.
void begin_graph_generation();
/// Ends generations and drops all recordings, as tenon::reset() wants it.
void forget_recordings();

/// From here on tensors know whether a recording has overwritten them (core/device/overwritten.h).
void watch_overwritten_results();

}  // namespace tenon

// SPDX-License-Identifier: Apache-2.0
// tenon/thread_object.hpp - an object for each thread, also where the process ends.
#pragma once

#include <utility>

namespace tenon {

/// One T for each thread: made when the thread first asks for it, owned by the thread, freed when it
/// ends. The main thread's objects go before the destructors of static objects run, which may call
/// compiled code; a `thread_local T` would be used after its end there. From then on a new T serves,
/// which nobody frees. Throws what T's constructor throws. One per type: name a type of your own.
///
///     struct Scratch { std::vector<std::byte> bytes; };
///     Scratch& mine = tenon::ThreadObject<Scratch>::get();
template <class T>
class ThreadObject {
 public:
  static T& get() {
    if (!object_) [[unlikely]]
      make();
    return *object_;
  }

 private:
  struct End {
    ~End() { delete std::exchange(object_, nullptr); }
  };
  [[gnu::noinline]] static void make() {
    thread_local const End end;
    static_cast<void>(end);
    object_ = new T();
  }

  static inline constinit thread_local T* object_ = nullptr;
};

}  // namespace tenon

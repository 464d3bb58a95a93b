// SPDX-License-Identifier: GPL-2.0-or-later
// Private to sidecar/kernel: StallSource over a loaded tracer.
#pragma once
#include "bpf/stalls_shared.h"
#include "sidecar/kernel/stalls.h"
#include "sidecar/kernel/tracer_impl.h"

namespace flushlight::kernel {

class StallReader final : public StallSource {
 public:
  explicit StallReader(Tracer::Impl &tracer) : tracer_(tracer) {}
  ~StallReader() override;
  StallReader(const StallReader &) = delete;
  StallReader &operator=(const StallReader &) = delete;

  std::vector<DeviceActivity> activity() override;
  std::vector<SlowRequest> take_slow_requests(uint64_t *lost) override;
  std::vector<Writer> writers() override;
  std::vector<BlockedTask> blocked_tasks() override;

 private:
  Result<> map_slow_requests();

  Tracer::Impl &tracer_;
  Mapped<const fl_slow_request> slow_;
  uint64_t slow_read_ = 0;      // number of the next one
  uint64_t far_looked_ns_ = 0;  // when the big table of requests was looked through
  int blocked_link_ = -1;
};

}  // namespace flushlight::kernel

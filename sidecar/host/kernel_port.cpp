// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/host/kernel_port.h"

namespace flushlight {

#ifdef FLUSHLIGHT_HAVE_KERNEL

namespace {

class TracerPort final : public KernelPort {
 public:
  explicit TracerPort(std::unique_ptr<kernel::Tracer> tracer) : tracer_(std::move(tracer)) {}
  [[nodiscard]] int ledger_fd() const override { return tracer_->ledger_fd(); }
  [[nodiscard]] uint32_t ledger_slots() const override { return tracer_->ledger_slots(); }
  Result<kernel::Lease> grant(const fl_hello &hello) override { return tracer_->grant(hello); }
  void revoke(const kernel::Lease &lease) override { tracer_->revoke(lease); }
  void tick() override { tracer_->tick(); }
  void measure(bool always) override { tracer_->measure(always); }
  Result<> set_enabled(bool enabled) override { return tracer_->set_enabled(enabled); }
  [[nodiscard]] bool enabled() const override { return tracer_->enabled(); }
  [[nodiscard]] std::vector<kernel::Feature> features() const override { return tracer_->features(); }
  [[nodiscard]] std::vector<kernel::ProgramCost> costs() const override { return tracer_->costs(); }
  [[nodiscard]] std::vector<kernel::Counter> counters() const override { return tracer_->counters(); }
  [[nodiscard]] std::vector<kernel::DeviceHistogram> histograms() const override { return tracer_->histograms(); }
  [[nodiscard]] std::vector<kernel::InFlight> in_flight() const override { return tracer_->in_flight(); }
  [[nodiscard]] std::vector<kernel::JournalCommits> journals() const override { return tracer_->journals(); }
  [[nodiscard]] std::vector<kernel::ThreadState> threads() const override { return tracer_->threads(); }
  [[nodiscard]] kernel::StallSource *stalls() override { return &tracer_->stalls(); }
  [[nodiscard]] std::vector<kernel::Ring> rings() override { return tracer_->rings(); }

 private:
  std::unique_ptr<kernel::Tracer> tracer_;
};

}  // namespace

bool kernel_side_built() { return true; }

Result<std::unique_ptr<KernelPort>> load_kernel_side(const kernel::Options &options) {
  auto tracer = kernel::Tracer::load(options);
  if (!tracer) return tracer.error();
  return std::unique_ptr<KernelPort>(std::make_unique<TracerPort>(std::move(*tracer)));
}

std::vector<kernel::Feature> probe_kernel_features(const kernel::Options &options) {
  return kernel::probe_features(options);
}

#else

bool kernel_side_built() { return false; }

Result<std::unique_ptr<KernelPort>> load_kernel_side(const kernel::Options &) {
  return Error{ENOSYS, "this build of flushlightd has no kernel side (it was built without libbpf or clang)"};
}

std::vector<kernel::Feature> probe_kernel_features(const kernel::Options &) { return {}; }

#endif

}  // namespace flushlight

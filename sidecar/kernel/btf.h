// SPDX-License-Identifier: GPL-2.0-or-later
// What the kernel side must know about the running kernel and CO-RE cannot tell it.
#pragma once
#include <bpf/btf.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sidecar/base/result.h"

namespace flushlight::kernel {

struct BtfFree {
  void operator()(btf *b) const { btf__free(b); }
};
using Btf = std::unique_ptr<btf, BtfFree>;

// The running kernel's BTF, or that in `path`.
Result<Btf> load_btf(const std::string &path);

struct KernelConstants {
  uint32_t flush_seq_mask = 0;
  uint32_t preflush_mask = 0;
  uint32_t fua_mask = 0;
  // address of __preempt_count on a CPU minus address of that CPU's run queue
  std::optional<int64_t> preempt_distance;
};
Result<KernelConstants> kernel_constants(const btf *b);

// Number of arguments of a tracepoint (without the data word); nullopt: the kernel has no such tracepoint.
std::optional<int> tracepoint_arguments(const btf *b, const std::string &name);

// File systems are modules in most distributions, with a BTF of their own; a tracepoint's name begins with its module's.
// "": no such module is loaded, or it has no such tracepoint.
std::string tracepoint_module(const btf *b, const std::string &name);

}  // namespace flushlight::kernel

// SPDX-License-Identifier: GPL-2.0-or-later
#include "sidecar/kernel/btf.h"

#include <bpf/libbpf.h>
#include <unistd.h>

#include <cstring>

namespace flushlight::kernel {
namespace {

std::optional<uint32_t> enum_value(const btf *b, const char *enum_name, const char *value_name) {
  int id = btf__find_by_name_kind(b, enum_name, BTF_KIND_ENUM);
  if (id < 0) return std::nullopt;
  const btf_type *type = btf__type_by_id(b, static_cast<uint32_t>(id));
  const struct btf_enum *values = btf_enum(type);
  for (int i = 0; i < btf_vlen(type); i++)
    if (std::strcmp(btf__name_by_offset(b, values[i].name_off), value_name) == 0)
      return static_cast<uint32_t>(values[i].val);
  return std::nullopt;
}

// Offset of a per-CPU variable in its section; all of them lie in one section, so differences are distances.
std::optional<int64_t> percpu_offset(const btf *b, const char *variable) {
  int section = btf__find_by_name_kind(b, ".data..percpu", BTF_KIND_DATASEC);
  if (section < 0) return std::nullopt;
  const btf_type *type = btf__type_by_id(b, static_cast<uint32_t>(section));
  const btf_var_secinfo *info = btf_var_secinfos(type);
  for (int i = 0; i < btf_vlen(type); i++) {
    const btf_type *var = btf__type_by_id(b, info[i].type);
    if (std::strcmp(btf__name_by_offset(b, var->name_off), variable) == 0) return static_cast<int64_t>(info[i].offset);
  }
  return std::nullopt;
}

std::optional<int64_t> member_offset(const btf *b, const char *structure, const char *member) {
  int id = btf__find_by_name_kind(b, structure, BTF_KIND_STRUCT);
  if (id < 0) return std::nullopt;
  const btf_type *type = btf__type_by_id(b, static_cast<uint32_t>(id));
  const btf_member *members = btf_members(type);
  for (int i = 0; i < btf_vlen(type); i++) {
    uint32_t bits = btf_member_bit_offset(type, static_cast<uint32_t>(i));
    if (std::strcmp(btf__name_by_offset(b, members[i].name_off), member) == 0) return bits / 8;
    if (members[i].name_off != 0 && *btf__name_by_offset(b, members[i].name_off) != '\0') continue;
    // an anonymous union or struct: look one level in
    const btf_type *inner = btf__type_by_id(b, members[i].type);
    if (!btf_is_composite(inner)) continue;
    const btf_member *inner_members = btf_members(inner);
    for (int j = 0; j < btf_vlen(inner); j++) {
      const btf_type *deeper = btf__type_by_id(b, inner_members[j].type);
      if (std::strcmp(btf__name_by_offset(b, inner_members[j].name_off), member) == 0)
        return (bits + btf_member_bit_offset(inner, static_cast<uint32_t>(j))) / 8;
      if (!btf_is_composite(deeper)) continue;
      const btf_member *deepest = btf_members(deeper);
      for (int k = 0; k < btf_vlen(deeper); k++)
        if (std::strcmp(btf__name_by_offset(b, deepest[k].name_off), member) == 0)
          return (bits + btf_member_bit_offset(inner, static_cast<uint32_t>(j)) +
                  btf_member_bit_offset(deeper, static_cast<uint32_t>(k))) /
                 8;
    }
  }
  return std::nullopt;
}

// The variable was plain until 6.1 and is again from 6.15; in between it was a member of pcpu_hot.
std::optional<int64_t> preempt_count_offset(const btf *b) {
  if (auto plain = percpu_offset(b, "__preempt_count")) return plain;
  auto hot = percpu_offset(b, "pcpu_hot");
  auto inside = member_offset(b, "pcpu_hot", "preempt_count");
  if (hot && inside) return *hot + *inside;
  return std::nullopt;
}

}  // namespace

Result<Btf> load_btf(const std::string &path) {
  btf *b = path.empty() ? btf__load_vmlinux_btf() : btf__parse(path.c_str(), nullptr);
  long code = libbpf_get_error(b);
  if (code != 0 || b == nullptr) {
    std::string where = path.empty() ? "/sys/kernel/btf/vmlinux" : path;
    return Error{static_cast<int>(code < 0 ? -code : code),
                 "cannot read the kernel's type information (BTF) from " + where +
                     ": the kernel needs CONFIG_DEBUG_INFO_BTF=y, or give the file with btf_path"};
  }
  return Btf(b);
}

Result<KernelConstants> kernel_constants(const btf *b) {
  KernelConstants result;
  // RQF_FLUSH_SEQ was a plain define, (1 << 4), until rqf_flags became an enum in 6.12.
  auto flush_seq = enum_value(b, "rqf_flags", "__RQF_FLUSH_SEQ");
  result.flush_seq_mask = flush_seq ? 1u << *flush_seq : 1u << 4;
  auto preflush = enum_value(b, "req_flag_bits", "__REQ_PREFLUSH");
  auto fua = enum_value(b, "req_flag_bits", "__REQ_FUA");
  if (!preflush || !fua)
    return Error{ENOTSUP, "the kernel's BTF has no enum req_flag_bits: flushes cannot be told from writes"};
  result.preflush_mask = 1u << *preflush;
  result.fua_mask = 1u << *fua;
  auto preempt = preempt_count_offset(b);
  auto run_queues = percpu_offset(b, "runqueues");
  if (preempt && run_queues) result.preempt_distance = *preempt - *run_queues;
  return result;
}

std::optional<int> tracepoint_arguments(const btf *b, const std::string &name) {
  int id = btf__find_by_name_kind(b, ("btf_trace_" + name).c_str(), BTF_KIND_TYPEDEF);
  if (id < 0) return std::nullopt;
  const btf_type *type = btf__type_by_id(b, static_cast<uint32_t>(id));
  type = btf__type_by_id(b, type->type);  // pointer
  type = btf__type_by_id(b, type->type);  // function
  if (!btf_is_func_proto(type)) return std::nullopt;
  return btf_vlen(type) - 1;
}

std::string tracepoint_module(const btf *b, const std::string &name) {
  const std::string module = name.substr(0, name.find('_'));
  const std::string path = "/sys/kernel/btf/" + module;
  if (access(path.c_str(), R_OK) != 0) return "";
  btf *split = btf__parse_split(path.c_str(), const_cast<btf *>(b));  // it only reads the base
  if (libbpf_get_error(split) != 0) return "";
  const Btf owner(split);
  return tracepoint_arguments(split, name) ? module : "";
}

}  // namespace flushlight::kernel

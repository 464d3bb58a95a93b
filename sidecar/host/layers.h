// SPDX-License-Identifier: GPL-2.0-or-later
// Stacked block devices: dm, md, NVMe multipath. They make no requests, so all that is observed is of the disks below.
#pragma once
#include <string>

#include "sidecar/host/block_devices.h"

namespace flushlight {

// After read_block_devices(): says what lies on what, hands mount points down to the disks below, and adds the hidden
// disks that NVMe multipath has for paths. disk_stats: text of /proc/diskstats, the only place with their numbers.
void add_layers(const std::string &sys, const std::string &disk_stats, BlockDevices *devices);

// What is to be known of stacked devices with file systems, in words; empty: there are none.
std::string describe_layers(const BlockDevices &devices);

// The same of this host, read now; may wait.
std::string describe_layers_of_host();

}  // namespace flushlight

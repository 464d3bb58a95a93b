// SPDX-License-Identifier: GPL-2.0-only
// The server's services that the plugin uses. Each pointer holds a version until the server, which looks for it
// by name when it loads the library, replaces it by the service's address. The server's libmysqlservices would
// define them; Debian has no package with it.
#include <service_versions.h>

#include "server.h"

#define SERVICE(name)                                                        \
  __attribute__((visibility("default"))) name##_service_st *name##_service = \
      reinterpret_cast<name##_service_st *>(static_cast<intptr_t>(VERSION_##name));

extern "C" {
SERVICE(thd_specifics)
SERVICE(my_print_error)
}

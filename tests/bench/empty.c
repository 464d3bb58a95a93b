// SPDX-License-Identifier: GPL-2.0-or-later
// empty OBJECT: attaches every program of a BPF object, says so, and stays until it is ended.
#include <bpf/libbpf.h>
#include <stdio.h>
#include <unistd.h>

int main(int count, char **arguments) {
  if (count != 2) {
    fprintf(stderr, "usage: empty OBJECT\n");
    return 2;
  }
  struct bpf_object *object = bpf_object__open(arguments[1]);
  if (object == NULL || bpf_object__load(object) != 0) {
    fprintf(stderr, "empty: %s does not load: run as root on a kernel with BTF\n", arguments[1]);
    return 1;
  }
  struct bpf_program *program;
  bpf_object__for_each_program(program, object) {
    if (bpf_program__attach(program) == NULL) {
      fprintf(stderr, "empty: %s does not attach\n", bpf_program__name(program));
      return 1;
    }
  }
  puts("attached");
  fflush(stdout);
  pause();
  return 0;
}

# SPDX-License-Identifier: GPL-2.0-or-later
# The floor that the overhead benchmark compares our programs with.
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/empty.bpf.o
  COMMAND ${BPF_CLANG} -O2 -g -target bpf -mcpu=v3 -I${LIBBPF_INCLUDE} -I/usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
          -c ${CMAKE_CURRENT_SOURCE_DIR}/empty.bpf.c -o ${CMAKE_CURRENT_BINARY_DIR}/empty.bpf.o
  DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/empty.bpf.c
  COMMENT "Compiling the benchmark's empty programs")
add_custom_target(bench_empty_programs ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/empty.bpf.o)
add_executable(empty empty.c)
target_link_libraries(empty PRIVATE bpf)

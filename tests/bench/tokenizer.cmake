# SPDX-License-Identifier: GPL-2.0-or-later
find_package(benchmark REQUIRED)
add_executable(bench_tokenizer ${CMAKE_CURRENT_LIST_DIR}/tokenizer.cpp ${PROJECT_SOURCE_DIR}/engine_client/tokenizer.c)
target_link_libraries(bench_tokenizer PRIVATE flushlight_options benchmark::benchmark)

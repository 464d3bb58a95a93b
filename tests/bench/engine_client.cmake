# SPDX-License-Identifier: GPL-2.0-or-later
find_package(benchmark REQUIRED)
find_package(GTest REQUIRED)
add_executable(bench_engine_client ${CMAKE_CURRENT_LIST_DIR}/engine_client.cpp
               ${PROJECT_SOURCE_DIR}/tests/unit/engine_client/fake_daemon.cpp)
target_link_libraries(bench_engine_client PRIVATE flushlight_options flushlight_engine_client benchmark::benchmark GTest::gtest)
target_compile_options(bench_engine_client PRIVATE -Wno-missing-field-initializers)

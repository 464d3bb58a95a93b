# SPDX-License-Identifier: GPL-2.0-or-later
"""Arguments that all mariadb_* scenarios take."""
import argparse


def parse(variants=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--engines", required=True, help="folder that tools/fetch-engines filled")
    parser.add_argument("--plugin", required=True, help="flushlight.so")
    parser.add_argument("--daemon", required=True, help="flushlightd")
    parser.add_argument("--work", required=True, help="folder for private servers")
    parser.add_argument("--tracing", action="store_true", help="with the kernel side (root)")
    parser.add_argument("--case", action="append", help="only these")
    if variants:
        parser.add_argument("--variant", action="append", choices=list(variants))
    arguments = parser.parse_args()
    if variants and not arguments.variant:
        arguments.variant = list(variants)
    return arguments

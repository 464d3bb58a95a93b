# SPDX-License-Identifier: GPL-2.0-or-later
"""libmariadb through ctypes: sessions that stay open, text and binary protocol, several statements in a packet."""
import ctypes
import glob
import os

CLIENT_MULTI_STATEMENTS = 1 << 16
CLIENT_MULTI_RESULTS = 1 << 17


class SqlError(Exception):
    pass


def load_library(engines):
    found = sorted(glob.glob(os.path.join(engines, "mariadb/root/usr/lib/*/libmariadb.so.3")))
    library = ctypes.CDLL(found[0] if found else "libmariadb.so.3")
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong
    for name, result, arguments in (
            ("mysql_init", pointer, [pointer]),
            ("mysql_real_connect", pointer, [pointer, text, text, text, text, ctypes.c_uint, text, number]),
            ("mysql_real_query", ctypes.c_int, [pointer, text, number]),
            ("mysql_store_result", pointer, [pointer]), ("mysql_free_result", None, [pointer]),
            ("mysql_num_fields", ctypes.c_uint, [pointer]), ("mysql_fetch_row", ctypes.POINTER(text), [pointer]),
            ("mysql_next_result", ctypes.c_int, [pointer]), ("mysql_more_results", ctypes.c_byte, [pointer]),
            ("mysql_error", text, [pointer]), ("mysql_errno", ctypes.c_uint, [pointer]), ("mysql_close", None, [pointer]),
            ("mysql_thread_id", number, [pointer]), ("mysql_warning_count", ctypes.c_uint, [pointer]),
            ("mysql_change_user", ctypes.c_byte, [pointer, text, text, text]),
            ("mysql_stmt_init", pointer, [pointer]), ("mysql_stmt_prepare", ctypes.c_int, [pointer, text, number]),
            ("mysql_stmt_execute", ctypes.c_int, [pointer]), ("mysql_stmt_error", text, [pointer]),
            ("mysql_stmt_free_result", ctypes.c_byte, [pointer]), ("mysql_stmt_close", ctypes.c_byte, [pointer])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Session:
    def __init__(self, library, socket, database="d", user="root"):
        self.library = library
        self.handle = library.mysql_init(None)
        if not library.mysql_real_connect(self.handle, None, user.encode(), b"", database.encode() if database else None, 0,
                                          str(socket).encode(), CLIENT_MULTI_STATEMENTS | CLIENT_MULTI_RESULTS):
            raise SqlError(library.mysql_error(self.handle).decode())
        self.id = library.mysql_thread_id(self.handle)
        self.statements = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for statement in self.statements:
            self.library.mysql_stmt_close(statement)
        self.statements = []
        if self.handle:
            self.library.mysql_close(self.handle)
        self.handle = None

    def _fail(self):
        raise SqlError(f"{self.library.mysql_errno(self.handle)}: {self.library.mysql_error(self.handle).decode()}")

    def query(self, sql):
        """Rows of the last result that has any."""
        sql = sql if isinstance(sql, bytes) else sql.encode()
        if self.library.mysql_real_query(self.handle, sql, len(sql)):
            self._fail()
        rows = []
        while True:
            result = self.library.mysql_store_result(self.handle)
            if result:
                count = self.library.mysql_num_fields(result)
                rows = []
                while row := self.library.mysql_fetch_row(result):
                    rows.append([row[i].decode(errors="replace") if row[i] is not None else None for i in range(count)])
                self.library.mysql_free_result(result)
            elif self.library.mysql_errno(self.handle):
                self._fail()
            if not self.library.mysql_more_results(self.handle):
                return rows
            if self.library.mysql_next_result(self.handle) > 0:
                self._fail()

    def value(self, sql):
        rows = self.query(sql)
        return rows[0][0] if rows else None

    def prepare(self, sql):
        """A function that executes it with the binary protocol."""
        statement = self.library.mysql_stmt_init(self.handle)
        if self.library.mysql_stmt_prepare(statement, sql.encode(), len(sql.encode())):
            raise SqlError(self.library.mysql_stmt_error(statement).decode())
        self.statements.append(statement)

        def execute():
            if self.library.mysql_stmt_execute(statement):
                raise SqlError(self.library.mysql_stmt_error(statement).decode())
            self.library.mysql_stmt_free_result(statement)
        return execute

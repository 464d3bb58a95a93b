/* SPDX-License-Identifier: PostgreSQL */
/*
 * Between a database's encoding and the daemon's UTF-8. The server's own conversions raise an error for what cannot
 * be converted, which would end the user's statement; here it becomes '?'.
 */
#include "flushlight.h"

#include "catalog/namespace.h"
#include "mb/pg_wchar.h"

/* Every byte that is not of a valid character becomes '?'. */
static void
replace_invalid(char *text, int length, int encoding)
{
	int at = 0;

	while (at < length)
	{
		int bytes = pg_encoding_verifymbchar(encoding, text + at, length - at);

		if (bytes > 0)
			at += bytes;
		else
			text[at++] = '?';
	}
}

/* A palloc'd copy that is valid in `to`. In a transaction: the catalog knows the conversions. */
char *
fl_convert(const char *text, int *length, int from, int to)
{
	char *valid = pnstrdup(text, *length);
	char *converted;
	Oid proc;
	int done = 0;
	int bytes = 0;
	int room;

	*length = strlen(valid);
	if (from == PG_SQL_ASCII || to == PG_SQL_ASCII || from == to)
	{
		replace_invalid(valid, *length, from == PG_SQL_ASCII ? to : from);
		return valid;
	}
	replace_invalid(valid, *length, from);
	proc = FindDefaultConversionProc(from, to);
	room = (*length + 1) * MAX_CONVERSION_GROWTH + 1;
	converted = palloc(room);
	while (done < *length)
	{
		if (OidIsValid(proc))
			done +=
				pg_do_encoding_conversion_buf(proc, from, to, (unsigned char *)valid + done, *length - done,
											  (unsigned char *)converted + bytes, room - bytes, true);
		else
			converted[bytes] = '\0';
		bytes += strlen(converted + bytes);
		if (done < *length)
		{
			done += pg_encoding_mblen(from, valid + done);
			converted[bytes++] = '?';
		}
	}
	converted[bytes] = '\0';
	*length = bytes;
	pfree(valid);
	return converted;
}

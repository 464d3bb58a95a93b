/* SPDX-License-Identifier: PostgreSQL */
/*
 * Normalised texts. No literal and no comment leaves the backend.
 *
 * Queries are walked with PostgreSQL's own scanner: every literal token becomes $n, and so does every keyword
 * (NULL, TRUE) that the jumble counts as a constant; comments are not tokens. Utility statements, of which the
 * jumble knows little, go through the tokenizer that both engines share.
 *
 * A text is made only when the daemon does not have it: once per attachment and query id.
 */
#include "flushlight.h"

#include "mb/pg_wchar.h"
#include "parser/parser.h"
#include "parser/scanner.h"
#include "utils/memutils.h"

#define CORE_NORMALISED_SETS 64

static uint64 core_normalised[CORE_NORMALISED_SETS];

/* PostgreSQL 16 and later replaced constants of this utility statement: its id is stable without our help. */
void
fl_core_normalises(uint64 queryid)
{
	core_normalised[queryid % CORE_NORMALISED_SETS] = queryid;
}

static void
send_text(struct flc_thread *thread, uint64 queryid, const char *text, size_t length, bool truncated)
{
	char *utf8;
	int bytes = length;

	if (GetDatabaseEncoding() == PG_UTF8)
	{
		flc_write_text(thread, queryid, text, length, truncated);
		return;
	}
	if (!IsTransactionState())
		return;
	utf8 = fl_convert(text, &bytes, GetDatabaseEncoding(), PG_UTF8);
	flc_write_text(thread, queryid, utf8, bytes, truncated);
	pfree(utf8);
}

/*
 * The id of a utility statement, its text sent if the daemon lacks it. Core's id, unless that was made of a
 * text with literals (each literal another id): then the digest of the normalised text.
 */
uint64
fl_utility_text(const char *source, int location, int length, uint64 core_queryid)
{
	struct flc_tokenizer_options options = {
		.ansi_strings = true,
		.no_backslash_escapes = standard_conforming_strings,
	};
	char text[FL_TEXT_BYTES_MAX];
	size_t text_length;
	bool truncated;
	uint64 queryid;
	struct flc_thread *thread;

	source = CleanQuerytext(source, &location, &length);
	queryid = flc_normalize(source, length, &options, text, sizeof(text), &text_length, &truncated);
	if (core_queryid != 0 && ((!truncated && memchr(text, '?', text_length) == NULL) ||
							  core_normalised[core_queryid % CORE_NORMALISED_SETS] == core_queryid))
		queryid = core_queryid;

	thread = fl_session_thread_again();
	if (thread != NULL && flc_text_wanted(thread, queryid))
		send_text(thread, queryid, text, text_length, truncated);
	return queryid;
}

typedef struct Output
{
	size_t length;
	char text[FL_TEXT_BYTES_MAX + 64]; /* room to see that it is too long */
} Output;

static bool
full(const Output *output)
{
	return output->length > FL_TEXT_BYTES_MAX;
}

static void
append(Output *output, const char *text, size_t length)
{
	length = Min(length, sizeof(output->text) - output->length);
	memcpy(output->text + output->length, text, length);
	output->length += length;
}

/* By its first characters: the grammar's token numbers are not in the installed headers. */
static bool
is_literal(const char *token)
{
	unsigned char first = token[0];

	if (first == '\'' || isdigit(first))
		return true;
	if (first == '.')
		return isdigit((unsigned char)token[1]);
	if (first == '$')
		return !isdigit((unsigned char)token[1]);
	if (first == 'u' || first == 'U')
		return token[1] == '&' && token[2] == '\'';
	return first != '\0' && strchr("eEbBxX", first) != NULL && token[1] == '\'';
}

/* TRUE, FALSE, NULL where they are constants, and nothing that is no word. */
static bool
is_constant(const char *token, int location, const JumbleState *jstate)
{
	int i;

	if (jstate == NULL || strchr("nNtTfF", token[0]) == NULL)
		return false;
	for (i = 0; i < jstate->clocations_count; i++)
		if (jstate->clocations[i].location == location)
			return true;
	return false;
}

static void
walk(const char *statement, int offset, const JumbleState *jstate, int params, Output *output)
{
	core_yy_extra_type extra;
	core_YYSTYPE value;
	YYLTYPE at;
	core_yyscan_t scanner = scanner_init(statement, &extra, &ScanKeywords, ScanKeywordTokens);
	int end = 0;
	int number = jstate ? jstate->highest_extern_param_id : params;

	extra.escape_string_warning = false; /* it was given already */
	while (!full(output) && core_yylex(&value, &at, scanner) != 0)
	{
		const char *token = extra.scanbuf + at;
		size_t length = strlen(token); /* the scanner ends the current token with a zero */

		if (at > end && output->length > 0)
			append(output, " ", 1);
		/* the scanner's copy is cut at the token's end: look at the source for what it begins with */
		if (is_literal(statement + at) || is_constant(statement + at, at + offset, jstate))
		{
			char parameter[16];

			append(output, parameter, snprintf(parameter, sizeof(parameter), "$%d", ++number));
		}
		else
			append(output, token, length);
		end = at + length;
	}
	scanner_finish(scanner);
}

void
fl_query_text(const char *source, int location, int length, uint64 queryid, const JumbleState *jstate,
			  int params)
{
	struct flc_thread *thread;
	MemoryContext context = CurrentMemoryContext;
	char *statement;
	Output output;

	if (source == NULL || !flc_texts_wanted())
		return;
	thread = fl_session_thread_again();
	if (thread == NULL || !flc_text_wanted(thread, queryid))
		return;

	source = CleanQuerytext(source, &location, &length);
	statement = pnstrdup(source, length);
	output.length = 0;
	PG_TRY();
	{
		walk(statement, location, jstate, params, &output);
	}
	PG_CATCH();
	{
		/* a setting changed since it was parsed; the scanner holds nothing, and the statement must go on */
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	pfree(statement);
	send_text(thread, queryid, output.text, Min(output.length, FL_TEXT_BYTES_MAX), full(&output));
}

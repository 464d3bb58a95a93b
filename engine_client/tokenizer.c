/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Normalised text and digest of a statement, in one pass, without allocation.
 *
 * This file cuts the query into tokens and never lets a literal's bytes go on: what it is unsure about (a
 * string or comment without end, a number with a tail) becomes a `?`. tokenizer_writer.h makes text and
 * digest of the tokens.
 *
 * Any thread; no shared state.
 */
#include <string.h>

#include "engine_client/client.h"
#include "engine_client/tokenizer_scanner.h"

/* s->at is at the opening '$' of what may be a dollar quote. False: it is none, nothing is skipped. */
static bool scan_dollar_quote(struct scanner *s)
{
	const char *tag_end = s->at + 1;
	size_t length;

	if (tag_end < s->end && class_of(*tag_end) == CLASS_DIGIT)
		return false;
	while (tag_end < s->end && is_word(*tag_end) && *tag_end != '$')
		tag_end++;
	if (tag_end == s->end || *tag_end != '$')
		return false;
	length = (size_t)(tag_end + 1 - s->at);
	for (const char *at = tag_end + 1; at < s->end;) {
		const char *dollar = memchr(at, '$', (size_t)(s->end - at));

		if (!dollar || (size_t)(s->end - dollar) < length)
			break;
		if (memcmp(dollar, s->at, length) == 0) {
			s->at = dollar + length;
			return true;
		}
		at = dollar + 1;
	}
	s->at = s->end;
	return true;
}

/* A number with everything that sticks to it, so that no half of a malformed one goes on. */
static void scan_number(struct scanner *s)
{
	bool hex = s->at[0] == '0' && (peek(s, 1) | 0x20) == 'x';

	while (s->at < s->end) {
		char c = *s->at;

		if ((c == '+' || c == '-') && !hex && (s->at[-1] | 0x20) == 'e' &&
		    class_of(peek(s, 1)) == CLASS_DIGIT) {
			s->at++;
			continue;
		}
		if (!is_word(c) && c != '.')
			break;
		s->at++;
	}
}

/* Ends in "password" (MASTER_PASSWORD, user_password …): what is assigned to it is hidden. */
static bool names_password(const char *word, size_t length)
{
	static const char password[8] = "password";

	if (length < sizeof(password))
		return false;
	word += length - sizeof(password);
	for (size_t i = 0; i < sizeof(password); i++)
		if ((word[i] | 0x20) != password[i])
			return false;
	return true;
}

static bool is_string_start(const struct scanner *s, char c)
{
	return c == '\'' || (c == '"' && !s->double_quoted_identifiers);
}

/* Is there a string (or hex or bit literal) after white space from `at` on? */
static const char *string_ahead(const struct scanner *s, const char *at)
{
	while (at < s->end && class_of(*at) == CLASS_SPACE)
		at++;
	if (at < s->end && is_string_start(s, *at))
		return at;
	if (s->end - at >= 2 &&
	    ((at[1] == '\'' && strchr("xXbBnN", *at)) || (*at == '0' && (at[1] | 0x20) == 'x')))
		return at;
	return NULL;
}

static bool is_prefix(const struct scanner *s, char c)
{
	return c != '\0' && strchr(s->ansi ? "xXbBnNeE" : "xXbBnN", c) != NULL;
}

/* PostgreSQL: a string goes on, by the same rules, in quotes on a further line. True: s->at is at that quote. */
static bool skip_to_continuation(struct scanner *s)
{
	struct scanner ahead = *s;
	bool newline = false;

	while (ahead.at < ahead.end) {
		char c = *ahead.at;

		if (c == '-' && peek(&ahead, 1) == '-') {
			skip_line(&ahead);
			newline = true;
			continue;
		}
		if (c == '\'' && newline) {
			s->at = ahead.at;
			return true;
		}
		if (class_of(c) != CLASS_SPACE)
			break;
		newline |= c == '\n' || c == '\r';
		ahead.at++;
	}
	return false;
}

static void scan_string(struct scanner *s, struct writer *w, bool backslash)
{
	do
		skip_quoted(s, backslash);
	while (s->ansi && skip_to_continuation(s));
	write_literal(w, false);
}

static void scan_quoted_identifier(struct scanner *s, struct writer *w, const char *begin)
{
	if (skip_quoted(s, false))
		write_word(w, begin, (size_t)(s->at - begin));
	else
		write_literal(w, false);
}

/* Whether a backslash escapes in a string with this prefix. */
static bool prefix_escapes(const struct scanner *s, char prefix)
{
	switch (prefix | 0x20) {
	case 'e':
		return true;
	case 'b':
	case 'x':
		return s->backslash && !s->ansi;
	default:
		return s->backslash;
	}
}

static void scan_word(struct scanner *s, struct writer *w)
{
	const char *begin = s->at;
	const struct keyword *keyword;
	const char *string;
	size_t length;

	while (s->at < s->end && is_word(*s->at))
		s->at++;
	length = (size_t)(s->at - begin);
	if (length == 1 && peek(s, 0) == '\'' && is_prefix(s, *begin)) {
		scan_string(s, w, prefix_escapes(s, *begin));
		return;
	}
	if (s->ansi && length == 1 && (*begin | 0x20) == 'u' && peek(s, 0) == '&' &&
	    (peek(s, 1) == '\'' || peek(s, 1) == '"')) {
		s->at++;
		if (*s->at == '"')
			scan_quoted_identifier(s, w, begin);
		else
			scan_string(s, w, false);
		return;
	}
	if (*begin == '_' && !s->ansi && w->last != TOKEN_DOT && w->last != TOKEN_AT &&
	    string_ahead(s, s->at))
		return; /* a character set: part of the literal that follows */
	keyword = w->last == TOKEN_DOT || w->last == TOKEN_AT ? NULL : find_keyword(begin, length);
	if (!keyword) {
		write_word(w, begin, length);
		if (names_password(begin, length))
			w->secret = SECRET_VALUE;
		return;
	}
	if ((keyword->flags & KEYWORD_TEMPORAL) && (string = string_ahead(s, s->at)) &&
	    is_string_start(s, *string))
		return; /* DATE '…' */
	write_keyword(w, keyword);
}

static size_t operator_length_mariadb(const struct scanner *s)
{
	char next = peek(s, 1);

	switch (*s->at) {
	case '<': /* <=> <= <> << */
		return next == '=' ? 2 + (peek(s, 2) == '>') : 1 + (next == '>' || next == '<');
	case '-': /* ->> -> */
		return next == '>' ? 2 + (peek(s, 2) == '>') : 1;
	case '>': /* >= >> */
		return 1 + (next == '=' || next == '>');
	case '!':
	case ':': /* != := */
		return 1 + (next == '=');
	case '|':
	case '&':
		return 1 + (next == *s->at);
	default:
		return 1;
	}
}

/* PostgreSQL's rule: the longest run, not into a comment, not ending in a sign unless it has a special. */
static size_t operator_length_ansi(const struct scanner *s)
{
	size_t length = 0, limit = (size_t)(s->end - s->at);
	bool special = false;

	while (length < limit && s->at[length] && strchr("+-*/<>=~!@#%^&|?", s->at[length])) {
		if (length + 1 < limit && ((s->at[length] == '-' && s->at[length + 1] == '-') ||
					   (s->at[length] == '/' && s->at[length + 1] == '*')))
			break;
		special |= strchr("~!@#%^&|?", s->at[length]) != NULL;
		length++;
	}
	while (length > 1 && !special && (s->at[length - 1] == '+' || s->at[length - 1] == '-'))
		length--;
	return length ? length : 1;
}

static void scan_operator(struct scanner *s, struct writer *w)
{
	const char *begin = s->at;
	size_t length;

	if (s->ansi && begin[0] == ':' && peek(s, 1) == ':') {
		s->at += 2;
		write_token(w, TOKEN_DOT, begin, 2);
		return;
	}
	if (*begin == ':' && (class_of(peek(s, 1)) == CLASS_WORD || class_of(peek(s, 1)) == CLASS_DIGIT) &&
	    (w->comma || w->semicolon || !is_operand(w))) {
		s->at++;
		while (s->at < s->end && is_word(*s->at))
			s->at++;
		write_literal(w, false);
		return;
	}
	length = s->ansi ? operator_length_ansi(s) : operator_length_mariadb(s);
	s->at += length;
	if (length == 1 && *begin == '?')
		write_literal(w, false);
	else if (length == 1 && (*begin == '-' || *begin == '+'))
		write_sign(w, *begin);
	else
		write_operator(w, begin, length);
}

static void scan_punctuation(struct scanner *s, struct writer *w)
{
	const char *begin = s->at;

	switch (*begin) {
	case '(':
		s->at++;
		write_open(w);
		return;
	case ')':
		s->at++;
		write_close(w);
		return;
	case ',':
		s->at++;
		write_comma(w);
		return;
	case ';':
		s->at++;
		write_semicolon(w);
		return;
	case '@':
		if (s->ansi) {
			scan_operator(s, w);
			return;
		}
		s->at++;
		write_token(w, TOKEN_AT, begin, 1);
		return;
	case '.':
		if (class_of(peek(s, 1)) == CLASS_DIGIT) {
			scan_number(s);
			write_literal(w, false);
			return;
		}
		if (peek(s, 1) == '.' && peek(s, 2) == '.') {
			s->at += 3;
			write_literal(w, true);
			return;
		}
		break;
	default:
		break;
	}
	s->at++;
	write_token(w, TOKEN_DOT, begin, 1);
}

static void scan_quote(struct scanner *s, struct writer *w)
{
	if (is_string_start(s, *s->at))
		scan_string(s, w, s->backslash);
	else if (*s->at == '`' && s->ansi)
		scan_operator(s, w);
	else
		scan_quoted_identifier(s, w, s->at);
}

static void scan_token(struct scanner *s, struct writer *w)
{
	switch ((enum class)class_of(*s->at)) {
	case CLASS_SPACE:
		s->at++;
		break;
	case CLASS_WORD:
		if (*s->at == '$' && s->ansi) {
			if (scan_dollar_quote(s)) {
				write_literal(w, false);
			} else if (class_of(peek(s, 1)) == CLASS_DIGIT) {
				s->at++;
				scan_number(s);
				write_literal(w, false);
			} else {
				scan_operator(s, w);
			}
			break;
		}
		scan_word(s, w);
		break;
	case CLASS_DIGIT:
		scan_number(s);
		write_literal(w, false);
		break;
	case CLASS_QUOTE:
		scan_quote(s, w);
		break;
	case CLASS_PUNCTUATION:
		scan_punctuation(s, w);
		break;
	case CLASS_OTHER:
		if (!scan_comment(s, w))
			scan_operator(s, w);
		break;
	}
}

uint64_t flc_normalize(const char *query, size_t length, const struct flc_tokenizer_options *options,
		       char *text, size_t capacity, size_t *text_length, bool *truncated)
{
	struct scanner s = {
		.at = query,
		.end = length ? query + length : query,
		.ansi = options->ansi_strings,
		.double_quoted_identifiers = options->ansi_strings || options->ansi_quotes,
		.backslash = !options->no_backslash_escapes,
	};
	struct writer w = {.text = text, .capacity = capacity, .now = {.digest = DIGEST_SEED}};

	while (s.at < s.end)
		scan_token(&s, &w);
	w.semicolon = false;
	flush_held(&w);
	if (w.row_state == ROWS_INSIDE)
		w.now.digest = digest_mix(w.row_outer, w.now.digest);
	*text_length = w.now.length;
	*truncated = w.now.cut;
	return digest_finish(w.now.digest);
}

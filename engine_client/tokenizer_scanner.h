/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tokenizer's scanner: classes of characters, quotes and comments, each by its engine's own rules.
 *
 * Included by tokenizer.c only. Any thread; no shared state.
 */
#ifndef FLUSHLIGHT_ENGINE_CLIENT_TOKENIZER_SCANNER_H
#define FLUSHLIGHT_ENGINE_CLIENT_TOKENIZER_SCANNER_H

#include "engine_client/tokenizer_writer.h"

enum class {
	CLASS_OTHER, /* operators and what we do not know */
	CLASS_SPACE,
	CLASS_WORD, /* letters, '_', '$', bytes of longer characters */
	CLASS_DIGIT,
	CLASS_QUOTE, /* ' " ` */
	CLASS_PUNCTUATION,
};

#define S CLASS_SPACE
#define W CLASS_WORD
#define D CLASS_DIGIT
#define Q CLASS_QUOTE
#define P CLASS_PUNCTUATION
static const uint8_t classes[256] = {
	['\0'] = S,          ['\t'] = S,        ['\n'] = S,        ['\v'] = S,        ['\f'] = S, ['\r'] = S,
	[' '] = S,           ['0' ... '9'] = D, ['A' ... 'Z'] = W, ['a' ... 'z'] = W, ['_'] = W,  ['$'] = W,
	[0x80 ... 0xff] = W, ['\''] = Q,        ['"'] = Q,         ['`'] = Q,         ['('] = P,  [')'] = P,
	[','] = P,           [';'] = P,         ['.'] = P,         ['@'] = P,         ['['] = P,  [']'] = P,
};
#undef S
#undef W
#undef D
#undef Q
#undef P

struct scanner {
	const char *at;
	const char *end;
	bool ansi; /* PostgreSQL's rules */
	bool double_quoted_identifiers;
	bool backslash;  /* escapes in ordinary strings */
	bool executable; /* inside an executable comment */
};

static inline uint8_t class_of(char c)
{
	return classes[(unsigned char)c];
}

static inline bool is_word(char c)
{
	return class_of(c) == CLASS_WORD || class_of(c) == CLASS_DIGIT;
}

static inline char peek(const struct scanner *s, size_t ahead)
{
	return (size_t)(s->end - s->at) > ahead ? s->at[ahead] : '\0';
}

/*
 * Skips what is quoted, the opening quote being at s->at; false: it has no end, and everything to the end of
 * the query was skipped. Inside an executable comment a string that spans the comment's end counts as
 * endless too: whether the server runs the comment decides what it means.
 */
static bool skip_quoted(struct scanner *s, bool backslash)
{
	char quote = *s->at++;

	while (s->at < s->end) {
		char c = *s->at++;

		if (c == '\\' && backslash) {
			if (s->at < s->end)
				s->at++;
		} else if (c == quote) {
			if (s->at == s->end || *s->at != quote)
				return true;
			s->at++;
		} else if (c == '*' && s->executable && s->at < s->end && *s->at == '/') {
			break;
		}
	}
	s->at = s->end;
	return false;
}

/*
 * A comment to the end of its line. False: it stands in an executable comment and may end that too; whether the
 * server runs the comment decides, so everything to the end of the query was skipped.
 */
static bool skip_line(struct scanner *s)
{
	for (; s->at < s->end; s->at++) {
		if (*s->at == '\n' || (*s->at == '\r' && s->ansi)) {
			s->at++;
			return true;
		}
		if (*s->at == '*' && s->executable && peek(s, 1) == '/') {
			s->at = s->end;
			return false;
		}
	}
	return true;
}

/* MariaDB wants a space or control character after "--". */
static bool ends_dashes(const struct scanner *s)
{
	unsigned char c = (unsigned char)peek(s, 2);

	return s->ansi || c <= ' ' || c == 0x7f;
}

/* s->at is behind the opening mark. */
static void skip_comment(struct scanner *s)
{
	unsigned depth = 1;

	while (s->end - s->at >= 2) {
		if (s->at[0] == '*' && s->at[1] == '/') {
			s->at += 2;
			if (--depth == 0)
				return;
		} else if (s->ansi && s->at[0] == '/' && s->at[1] == '*') {
			s->at += 2;
			depth++;
		} else {
			s->at++;
		}
	}
	s->at = s->end;
}

/* True: a comment began (or an executable one began or ended) at s->at and was skipped. */
static bool scan_comment(struct scanner *s, struct writer *w)
{
	char c = *s->at, next = peek(s, 1);

	if ((c == '-' && next == '-' && ends_dashes(s)) || (c == '#' && !s->ansi)) {
		if (!skip_line(s))
			write_literal(w, false);
		return true;
	}
	if (c == '*' && next == '/' && s->executable) {
		s->executable = false;
		s->at += 2;
		return true;
	}
	if (c != '/' || next != '*')
		return false;
	s->at += 2;
	if (!s->ansi && !s->executable && (peek(s, 0) == '!' || (peek(s, 0) == 'M' && peek(s, 1) == '!'))) {
		s->executable = true;
		s->at += peek(s, 0) == '!' ? 1 : 2;
		while (class_of(peek(s, 0)) == CLASS_DIGIT)
			s->at++;
		return true;
	}
	skip_comment(s);
	return true;
}

#endif

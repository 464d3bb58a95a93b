/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tokenizer's writer: decides on spaces, collapses lists of literals and repeated rows, and hashes. It
 * writes a token as soon as it may; what a later token can still change (a comma after a literal, a sign, a
 * semicolon) is held, and what was written too early ("(?" of what becomes "(...)") is taken back to a mark.
 *
 * The digest covers tokens, not the text: it does not depend on spaces and goes on where the text is cut.
 * A row is hashed on its own, so that equal rows can be told without keeping them.
 *
 * Included by tokenizer.c only. Any thread; no shared state.
 */
#ifndef FLUSHLIGHT_ENGINE_CLIENT_TOKENIZER_WRITER_H
#define FLUSHLIGHT_ENGINE_CLIENT_TOKENIZER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine_client/tokenizer_keywords.h"

#define DIGEST_SEED 0x464c555348303031ull
#define DIGEST_PRIME 0x9e3779b97f4a7c15ull

enum token {
	TOKEN_START, /* nothing written yet */
	TOKEN_WORD,
	TOKEN_FUNCTION, /* keyword that hugs its parenthesis */
	TOKEN_KEYWORD,
	TOKEN_LITERAL,
	TOKEN_OPERATOR,
	TOKEN_OPEN,
	TOKEN_CLOSE,
	TOKEN_COMMA,
	TOKEN_DOT, /* '.', '::', brackets: no space on either side */
	TOKEN_AT,  /* '@': no space after it */
	TOKEN_SEMICOLON,
};

/* What taking back restores. */
struct mark {
	uint64_t digest;
	size_t length;
	bool cut;
};

enum secret {
	SECRET_NO,
	SECRET_VALUE, /* the next value is hidden, keywords end it */
	SECRET_ANY,   /* the next token is hidden, whatever it is (PASSWORD excepted) */
};

struct writer {
	char *text;
	size_t capacity;
	struct mark now;

	enum token last;
	uint16_t last_flags; /* keyword flags of the last token; 0 for anything else */
	char sign;           /* held '+' or '-', may belong to a number; 0: none */
	bool comma;          /* held, after a literal or a row */
	bool semicolon;      /* held, for more to come */

	uint8_t list;        /* literals in a row up to here: 0, 1, 2 = several */
	bool list_from_open; /* the list began right after its parenthesis */
	struct mark open;    /* right after that parenthesis */

	uint32_t depth;
	uint32_t row_depth; /* depth outside of the current list of rows; row_state says whether */
	enum { ROWS_NONE, ROWS_EXPECTED, ROWS_INSIDE, ROWS_BETWEEN } row_state;
	struct mark row_before; /* before the comma that leads to this row */
	uint64_t row_outer;     /* digest outside of the row */
	uint64_t row_previous;  /* digest of the row before this one; 0: none */

	enum secret secret;
	bool identified;   /* IDENTIFIED was seen in this statement */
	bool set_password; /* PASSWORD FOR was seen: what is assigned is hidden */
};

static inline uint64_t digest_mix(uint64_t digest, uint64_t value)
{
	digest = (digest ^ value) * DIGEST_PRIME;
	return digest ^ (digest >> 29);
}

static inline uint64_t load_bytes(const char *from, size_t count)
{
	uint64_t value = 0;

	memcpy(&value, from, count);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	value = __builtin_bswap64(value);
#endif
	return value;
}

/* Up to seven bytes as a number, without a loop: loads may overlap. */
static inline uint64_t load_few(const char *from, size_t count)
{
	if (count >= 4)
		return load_bytes(from, 4) | load_bytes(from + count - 4, 4) << (8 * (count - 4));
	if (count == 0)
		return 0;
	return (uint64_t)(unsigned char)from[0] |
	       (uint64_t)(unsigned char)from[count / 2] << (8 * (count / 2)) |
	       (uint64_t)(unsigned char)from[count - 1] << (8 * (count - 1));
}

static inline uint64_t digest_bytes(uint64_t digest, const char *bytes, size_t length)
{
	for (; length >= 8; bytes += 8, length -= 8)
		digest = digest_mix(digest, load_bytes(bytes, 8));
	return digest_mix(digest, load_few(bytes, length) | (uint64_t)(length + 1)
								    << 56); /* marks the token's end */
}

/* Eight letters at once: clears bit 5 of every byte that is a small letter. */
static inline uint64_t upper_eight(uint64_t letters)
{
	const uint64_t ones = 0x0101010101010101ull, low = letters & (0x7f * ones);
	const uint64_t from_a = low + (0x80 - 'a') * ones, above_z = low + (0x7f - 'z') * ones;

	return letters & ~((from_a & ~above_z & ~letters & (0x80 * ones)) >> 2);
}

static const struct keyword *find_keyword(const char *word, size_t length)
{
	const struct keyword_bucket *bucket;
	uint64_t head, tail = 0, end = 0;
	unsigned letter;

	if (length > KEYWORD_BYTES_MAX || length < 2)
		return NULL;
	letter = ((unsigned char)word[0] | 0x20u) - 'a';
	if (letter > 'z' - 'a')
		return NULL;
	head = upper_eight(length >= 8 ? load_bytes(word, 8) : load_few(word, length));
	if (length > 8)
		tail = upper_eight(length >= 16 ? load_bytes(word + 8, 8) : load_few(word + 8, length - 8));
	if (length > 16)
		end = upper_eight(load_few(word + 16, length - 16));
	bucket = &keyword_buckets[letter];
	for (unsigned i = 0; i < bucket->count; i++) {
		const struct keyword *k = &bucket->keywords[i];

		if (k->length == length && load_bytes(k->text, 8) == head &&
		    load_bytes(k->text + 8, 8) == tail && load_bytes(k->text + 16, 4) == end)
			return k;
	}
	return NULL;
}

static uint64_t digest_finish(uint64_t digest)
{
	digest ^= digest >> 33;
	digest *= 0xff51afd7ed558ccdull;
	digest ^= digest >> 33;
	digest *= 0xc4ceb9fe1a85ec53ull;
	digest ^= digest >> 33;
	return digest ? digest : 1;
}

/* Most tokens are short: overlapping loads are cheaper than memcpy. */
static __attribute__((noinline)) void copy_text(char *to, const char *from, size_t length)
{
	if (length > 16) {
		memcpy(to, from, length);
	} else if (length >= 8) {
		uint64_t head, tail;

		memcpy(&head, from, 8);
		memcpy(&tail, from + length - 8, 8);
		memcpy(to, &head, 8);
		memcpy(to + length - 8, &tail, 8);
	} else {
		for (size_t i = 0; i < length; i++)
			to[i] = from[i];
	}
}

static inline void put_text(struct writer *w, const char *bytes, size_t length)
{
	size_t room = w->capacity - w->now.length;

	if (w->now.cut)
		return;
	if (length > room) {
		w->now.cut = true;
		length = room;
		while (length && ((unsigned char)bytes[length] & 0xc0) == 0x80)
			length--; /* not inside a character */
	}
	if (length)
		copy_text(w->text + w->now.length, bytes, length);
	w->now.length += length;
}

static bool is_operand(const struct writer *w)
{
	return w->last == TOKEN_WORD || w->last == TOKEN_LITERAL || w->last == TOKEN_CLOSE ||
	       (w->last_flags & KEYWORD_OPERAND);
}

static bool wants_space(const struct writer *w, enum token token)
{
	switch (w->last) {
	case TOKEN_START:
	case TOKEN_OPEN:
	case TOKEN_DOT:
	case TOKEN_AT:
		return false;
	default:
		break;
	}
	switch (token) {
	case TOKEN_COMMA:
	case TOKEN_CLOSE:
	case TOKEN_DOT:
	case TOKEN_SEMICOLON:
		return false;
	case TOKEN_OPEN:
		return w->last != TOKEN_WORD && w->last != TOKEN_FUNCTION;
	case TOKEN_AT:
		return w->last != TOKEN_WORD && w->last != TOKEN_LITERAL;
	default:
		return true;
	}
}

static void put(struct writer *w, enum token token, const char *bytes, size_t length)
{
	if (wants_space(w, token))
		put_text(w, " ", 1);
	put_text(w, bytes, length);
	w->now.digest = digest_bytes(w->now.digest, bytes, length);
	w->last = token;
	w->last_flags = 0;
}

/* ---- writer: what is held ---- */

static void end_list(struct writer *w)
{
	if (w->list > 1) {
		put_text(w, ", ...", 5);
		w->now.digest = digest_bytes(w->now.digest, ", ...", 5);
	}
	w->list = 0;
}

static void flush_held(struct writer *w)
{
	char sign = w->sign;

	if (!(w->list | w->comma | w->sign | w->semicolon))
		return;
	end_list(w);
	w->sign = 0;
	if (w->comma) {
		w->comma = false;
		put(w, TOKEN_COMMA, ",", 1);
	}
	if (sign)
		put(w, TOKEN_OPERATOR, &sign, 1);
	if (w->semicolon) {
		w->semicolon = false;
		put(w, TOKEN_SEMICOLON, ";", 1);
	}
}

/* Anything but the next row ends a list of rows. */
static void leave_rows(struct writer *w)
{
	if (w->row_state == ROWS_BETWEEN || w->row_state == ROWS_EXPECTED)
		w->row_state = ROWS_NONE;
}

static void write_token(struct writer *w, enum token token, const char *bytes, size_t length)
{
	flush_held(w);
	leave_rows(w);
	put(w, token, bytes, length);
}

/* A literal; several: it stands for a whole list ("..." in text that was normalised before). */
static void write_literal(struct writer *w, bool several)
{
	w->secret = SECRET_NO;
	if (w->semicolon)
		flush_held(w);
	if (w->list) {
		w->sign = w->comma ? 0 : w->sign;
		if (w->comma || (!w->sign && w->last == TOKEN_LITERAL)) {
			if (w->comma || several)
				w->list = 2; /* otherwise neighbours: 'a' 'b' is one string */
			w->comma = false;
			return;
		}
	}
	w->sign = 0;
	flush_held(w);
	leave_rows(w);
	w->list_from_open = w->last == TOKEN_OPEN;
	w->open = w->now;
	put(w, TOKEN_LITERAL, "?", 1);
	w->list = several ? 2 : 1;
}

static void write_comma(struct writer *w)
{
	if (w->comma || w->sign)
		flush_held(w);
	w->secret = SECRET_NO;
	if (w->list || w->row_state == ROWS_BETWEEN)
		w->comma = true;
	else
		write_token(w, TOKEN_COMMA, ",", 1);
}

static void write_sign(struct writer *w, char sign)
{
	if (is_operand(w) && !w->comma && !w->semicolon && !w->sign)
		write_token(w, TOKEN_OPERATOR, &sign, 1);
	else if (!w->sign)
		w->sign = sign; /* of several signs the first is kept */
}

static void write_open(struct writer *w)
{
	bool rows = w->row_state == ROWS_EXPECTED || w->row_state == ROWS_BETWEEN;
	bool next_row = w->row_state == ROWS_BETWEEN;

	/* IN ((1, 2), (3, 4)): the rows begin at the second parenthesis */
	if (w->row_state == ROWS_NONE && w->last == TOKEN_OPEN && (w->last_flags & KEYWORD_IN)) {
		rows = true;
		next_row = false;
	}
	if (next_row && !w->comma)
		rows = false;
	if (rows)
		w->row_before = w->now;
	uint16_t flags = w->last == TOKEN_KEYWORD ? w->last_flags & KEYWORD_IN : 0;

	flush_held(w);
	if (rows) {
		w->row_state = ROWS_INSIDE;
		w->row_depth = w->depth;
		w->row_previous = next_row ? w->row_previous : 0;
		w->row_outer = w->now.digest;
		w->now.digest = DIGEST_SEED;
	} else {
		leave_rows(w);
	}
	put(w, TOKEN_OPEN, "(", 1);
	w->last_flags = flags;
	w->depth++;
}

static void end_row(struct writer *w)
{
	uint64_t row = w->now.digest;

	if (row == w->row_previous) {
		w->now = w->row_before;
	} else {
		w->now.digest = digest_mix(w->row_outer, row);
		w->row_previous = row;
	}
	w->row_state = ROWS_BETWEEN;
}

static void write_close(struct writer *w)
{
	if (w->list > 1 && w->list_from_open && !w->comma && !w->sign && !w->semicolon) {
		w->now = w->open;
		w->list = 0;
		w->last = TOKEN_OPEN;
		put(w, TOKEN_LITERAL, "...", 3);
	}
	flush_held(w);
	w->secret = SECRET_NO;
	put(w, TOKEN_CLOSE, ")", 1);
	if (w->depth)
		w->depth--;
	if (w->row_state == ROWS_INSIDE && w->depth == w->row_depth)
		end_row(w);
	else
		leave_rows(w);
}

static void write_semicolon(struct writer *w)
{
	if (w->last == TOKEN_START)
		return;
	if (!w->semicolon)
		flush_held(w);
	w->semicolon = true;
	w->secret = SECRET_NO;
	w->identified = w->set_password = false;
}

/* An identifier, or a literal where a credential is expected. */
static void write_word(struct writer *w, const char *bytes, size_t length)
{
	if (w->secret != SECRET_NO)
		write_literal(w, false);
	else
		write_token(w, TOKEN_WORD, bytes, length);
}

static bool null_is_literal(const struct writer *w)
{
	return w->comma || w->sign || w->last == TOKEN_OPERATOR || w->last == TOKEN_COMMA ||
	       w->last == TOKEN_OPEN || (w->last_flags & KEYWORD_BEFORE_NULL);
}

static void write_keyword(struct writer *w, const struct keyword *keyword)
{
	uint16_t flags = keyword->flags;
	bool after_password = w->last_flags & KEYWORD_PASSWORD;

	if (w->secret == SECRET_ANY && !(flags & KEYWORD_PASSWORD)) {
		write_literal(w, false);
		return;
	}
	if ((flags & KEYWORD_NULL) && null_is_literal(w)) {
		write_literal(w, false);
		return;
	}
	w->secret = SECRET_NO;
	write_token(w, flags & KEYWORD_FUNCTION ? TOKEN_FUNCTION : TOKEN_KEYWORD, keyword->text,
		    keyword->length);
	w->last_flags = flags;
	if (flags & (KEYWORD_ROWS | KEYWORD_IDENTIFIED | KEYWORD_PASSWORD | KEYWORD_SECRET_AFTER_IDENTIFIED |
		     KEYWORD_FOR)) {
		if ((flags & KEYWORD_ROWS) && w->row_state == ROWS_NONE)
			w->row_state = ROWS_EXPECTED;
		if (flags & KEYWORD_IDENTIFIED)
			w->identified = true;
		if ((flags & KEYWORD_SECRET_AFTER_IDENTIFIED) && w->identified)
			w->secret = SECRET_ANY;
		if (flags & KEYWORD_PASSWORD)
			w->secret = SECRET_VALUE;
		if ((flags & KEYWORD_FOR) && after_password)
			w->set_password = true;
	}
}

static void write_operator(struct writer *w, const char *bytes, size_t length)
{
	write_token(w, TOKEN_OPERATOR, bytes, length);
	if (w->set_password && bytes[length - 1] == '=')
		w->secret = SECRET_VALUE; /* SET PASSWORD FOR somebody = … */
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks what the daemon hands out and maps it. A broken or hostile daemon must not be able to crash the
 * database: every number is bounded, every file must be sealed against shrinking and allocated in full
 * (else a touch could be a SIGBUS), and whatever was mapped is unmapped on any refusal.
 * Owner: the thread that calls flc_attach_step().
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* A memory file that cannot shrink, has these bytes, and has them all allocated. */
static bool file_ok(int fd, uint64_t bytes, const char *what, char *error, size_t error_bytes)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS) {
		snprintf(error, error_bytes, "the daemon's %s is not a sealed memory file", what);
		return false;
	}
	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0 ||
	    (uint64_t)status.st_size < bytes) {
		snprintf(error, error_bytes, "the daemon's %s is smaller than it says", what);
		return false;
	}
	if ((uint64_t)status.st_blocks * 512 < bytes) {
		snprintf(error, error_bytes, "the daemon's %s is not allocated in full", what);
		return false;
	}
	return true;
}

static bool numbers_ok(const struct fl_welcome *welcome, unsigned descriptors, char *error,
		       size_t error_bytes)
{
	uint32_t wanted = flc_state.hello.slots_wanted;
	uint64_t slots_end = (uint64_t)welcome->first_slot + welcome->slot_count;
	const char *wrong = NULL;

	if (welcome->slot_count == 0 || welcome->slot_count > wanted)
		wrong = "number of slots";
	else if (welcome->ring_data_bytes < FLC_RING_BYTES_MIN ||
		 welcome->ring_data_bytes > FLC_RING_BYTES_MAX ||
		 (welcome->ring_data_bytes & (welcome->ring_data_bytes - 1)) != 0)
		wrong = "ring size";
	else if (welcome->descriptors < 2 || welcome->descriptors > FLC_DESCRIPTORS_MAX || descriptors < 2 ||
		 descriptors > welcome->descriptors)
		wrong = "number of descriptors";
	else if (welcome->descriptors == 3 &&
		 (welcome->first_slot == 0 || welcome->ledger_slots > FLC_LEDGER_SLOTS_MAX ||
		  slots_end > welcome->ledger_slots || welcome->token == 0))
		wrong = "slot range or token";
	else if (welcome->descriptors == 3 && welcome->ledger_version != FL_LEDGER_VERSION)
		wrong = "ledger version";
	if (wrong == NULL)
		return true;
	snprintf(error, error_bytes, "the daemon's welcome has an impossible %s", wrong);
	return false;
}

static bool map_rings(struct flc_attachment *attachment, int fd, char *error, size_t error_bytes)
{
	uint64_t bytes =
		(uint64_t)attachment->slot_count * (FL_RING_HEAD_BYTES + attachment->ring_data_bytes);
	void *pages;

	if (!file_ok(fd, bytes, "ring file", error, error_bytes))
		return false;
	pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (pages == MAP_FAILED) {
		snprintf(error, error_bytes, "cannot map the rings: %s", strerror(errno));
		return false;
	}
	attachment->rings = pages;
	attachment->rings_bytes = bytes;
	return true;
}

/* Maps only the pages with our own slots. A BPF map is neither a regular file nor can it shrink. */
static bool map_ledger(struct flc_attachment *attachment, int fd, char *error, size_t error_bytes)
{
	uint64_t begin = (uint64_t)attachment->first_slot * sizeof(struct fl_slot);
	uint64_t end = begin + (uint64_t)attachment->slot_count * sizeof(struct fl_slot);
	uint64_t page_begin = begin & ~(uint64_t)(FLC_PAGE_BYTES - 1);
	struct stat status;
	void *pages;

	if (fstat(fd, &status) != 0) {
		snprintf(error, error_bytes, "cannot look at the ledger: %s", strerror(errno));
		return false;
	}
	if ((status.st_mode & S_IFMT) != 0 && !file_ok(fd, end, "ledger", error, error_bytes))
		return false;
	pages = mmap(NULL, end - page_begin, PROT_READ, MAP_SHARED, fd, (off_t)page_begin);
	if (pages == MAP_FAILED) {
		snprintf(error, error_bytes, "cannot map the ledger: %s", strerror(errno));
		return false;
	}
	attachment->ledger_pages = pages;
	attachment->ledger_bytes = end - page_begin;
	attachment->slots = (const struct fl_slot *)((const char *)pages + (begin - page_begin));
	return true;
}

static bool make_holds(struct flc_attachment *attachment, char *error, size_t error_bytes)
{
	uint32_t i;

	attachment->holds_bytes = attachment->slot_count * sizeof(struct flc_hold);
	attachment->holds = mmap(NULL, attachment->holds_bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (attachment->holds == MAP_FAILED) {
		attachment->holds = NULL;
		snprintf(error, error_bytes, "no memory for %u slots", attachment->slot_count);
		return false;
	}
	/* a ring file is new, but its numbers are the daemon's: take the head once, bounded, and keep our own
	 */
	for (i = 0; i < attachment->slot_count; i++) {
		uint64_t head = __atomic_load_n(&flc_ring(attachment, i)->head, __ATOMIC_RELAXED) & ~7ull;

		if (head != 0)
			attachment->holds[i].head = head;
	}
	return true;
}

/*
 * Shows the daemon's control page at the one address that flc_active() reads, whatever thread calls it: so
 * that address is never unmapped, only covered by another page.
 */
bool flc_control_show(int descriptor)
{
	return mmap((void *)flc_state.control, FLC_PAGE_BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor,
		    0) != MAP_FAILED;
}

void flc_control_hide(void)
{
	void *page = mmap((void *)flc_state.control, FLC_PAGE_BYTES, PROT_READ,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	/* nothing to do about a failure: the old page is still there, and its heartbeat is or becomes stale
	 */
	(void)page;
}

/* The control page's own claims, read before it is shown. */
static bool control_ok(int fd, const struct fl_welcome *welcome, char *error, size_t error_bytes)
{
	const struct fl_control *page;
	bool fits;

	if (!file_ok(fd, FLC_PAGE_BYTES, "control page", error, error_bytes))
		return false;
	page = mmap(NULL, FLC_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		snprintf(error, error_bytes, "cannot map the control page: %s", strerror(errno));
		return false;
	}
	fits = page->magic == FL_CONTROL_MAGIC && page->version == FL_RING_VERSION &&
	       page->epoch == welcome->epoch;
	if (!fits)
		snprintf(error, error_bytes,
			 "the daemon's control page has another version (%u, known is %u) or epoch",
			 page->version, FL_RING_VERSION);
	munmap((void *)page, FLC_PAGE_BYTES);
	return fits;
}

void flc_attachment_free(struct flc_attachment *attachment)
{
	if (attachment->rings != NULL)
		munmap(attachment->rings, attachment->rings_bytes);
	if (attachment->ledger_pages != NULL)
		munmap(attachment->ledger_pages, attachment->ledger_bytes);
	if (attachment->holds != NULL)
		munmap(attachment->holds, attachment->holds_bytes);
	free(attachment);
}

struct flc_attachment *flc_welcome_accept(const struct fl_welcome *welcome, size_t packet_bytes,
					  int *descriptors, unsigned count, bool truncated, char *error,
					  size_t error_bytes)
{
	struct flc_attachment *attachment = NULL;
	bool good = false;
	unsigned i;

	error[0] = '\0';
	if (packet_bytes < sizeof(*welcome))
		snprintf(error, error_bytes, "the daemon's welcome is too short");
	else if (truncated && count < 2)
		snprintf(error, error_bytes,
			 "the system refused the daemon's memory files (SELinux?): see flushlight doctor");
	else if (!truncated && count != welcome->descriptors)
		snprintf(error, error_bytes, "the daemon's welcome lacks descriptors");
	else if (numbers_ok(welcome, count, error, error_bytes) &&
		 control_ok(descriptors[0], welcome, error, error_bytes)) {
		attachment = calloc(1, sizeof(*attachment));
		if (attachment != NULL) {
			attachment->lease_fd = -1;
			attachment->first_slot = welcome->first_slot;
			attachment->slot_count = welcome->slot_count;
			attachment->ring_data_bytes = welcome->ring_data_bytes;
			good = map_rings(attachment, descriptors[1], error, error_bytes) &&
			       make_holds(attachment, error, error_bytes) &&
			       (count < 3 || map_ledger(attachment, descriptors[2], error, error_bytes)) &&
			       flc_control_show(descriptors[0]);
		}
		if (good && count < welcome->descriptors)
			snprintf(error, error_bytes,
				 "the system refused the ledger's descriptor (SELinux?): commit "
				 "times only, no causes; see flushlight doctor");
	}
	for (i = 0; i < count; i++)
		close(descriptors[i]);
	if (good)
		return attachment;
	if (attachment != NULL)
		flc_attachment_free(attachment);
	if (error[0] == '\0')
		snprintf(error, error_bytes, "no memory to attach");
	return NULL;
}

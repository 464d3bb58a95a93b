/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a file is called. Rare work only: the first time that a process writes to a file, a request that took long.
 * Everything is read, never dereferenced: names change while we look, and a wrong name is better than none.
 */
#ifndef FLUSHLIGHT_FILES_BPF_H
#define FLUSHLIGHT_FILES_BPF_H

struct hlist_node {
	struct hlist_node *next;
} CORE;

struct hlist_head {
	struct hlist_node *first;
} CORE;

struct qstr {
	const unsigned char *name;
} CORE;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
} CORE;

struct super_block {
	__u32 s_dev;
	struct block_device *s_bdev;
} CORE;

struct address_space {
	struct inode *host;
} CORE;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	struct hlist_head i_dentry;
} CORE;

struct file {
	struct inode *f_inode;
} CORE;

struct kiocb {
	struct file *ki_filp;
} CORE;

struct iov_iter {
	bool data_source; /* of a write */
	__u64 count;
} CORE;

struct folio {
	struct address_space *mapping;
} CORE;

struct page {
	unsigned long compound_head;
} CORE;

struct bio_vec {
	struct page *bv_page;
} CORE;

/* what bio, request and xfs_inode are here beyond kernel_types.bpf.h */
struct bio___data {
	struct bio_vec *bi_io_vec;
} CORE;

struct request___place {
	__u64 __sector;
} CORE;

struct xfs_inode___vfs {
	struct inode i_vnode;
} CORE;

#define PAGE_MAPPING_FLAGS 3ul /* anonymous memory and the like: no file */

static __noinline int file_name(struct fl_file *file, struct inode *inode)
{
	struct hlist_node *alias = BPF_CORE_READ(inode, i_dentry.first);
	struct dentry *entry, *parent;

	file->whole = 0;
	for (int i = 0; i < FL_FILE_NAMES; i++)
		file->names[i][0] = 0;
	if (!alias)
		return 0;
	entry = (void *)alias - __builtin_preserve_field_info(((struct dentry *)0)->d_u.d_alias, 0);
	for (int i = 0; i < FL_FILE_NAMES; i++) {
		parent = BPF_CORE_READ(entry, d_parent);
		if (!parent || parent == entry) {
			file->whole = 1;
			break;
		}
		bpf_probe_read_kernel_str(file->names[i], FL_FILE_NAME_BYTES,
					  BPF_CORE_READ(entry, d_name.name));
		entry = parent;
	}
	return 0;
}

static __always_inline __u32 disk_of(struct super_block *super)
{
	struct gendisk *disk = BPF_CORE_READ(super, s_bdev, bd_disk);

	return disk ? (__u32)BPF_CORE_READ(disk, major) << 20 | (__u32)BPF_CORE_READ(disk, first_minor) : 0;
}

static __always_inline void file_of_inode(struct fl_file *file, struct inode *inode)
{
	file->inode = BPF_CORE_READ(inode, i_ino);
	file->device = disk_of(BPF_CORE_READ(inode, i_sb));
	file_name(file, inode);
}

/* The file whose pages a request carries; none for direct I/O and metadata. */
static __always_inline struct inode *inode_of_request(struct request *rq)
{
	struct bio___data *bio = (void *)BPF_CORE_READ(rq, bio);
	struct address_space *mapping;
	struct super_block *super;
	struct inode *inode;
	struct page *page;
	__u64 head;

	if (!bio)
		return 0;
	page = BPF_CORE_READ(bio, bi_io_vec, bv_page);
	if (!page)
		return 0;
	head = BPF_CORE_READ(page, compound_head);
	if (head & 1)
		page = (struct page *)(head - 1);
	mapping = BPF_CORE_READ((struct folio *)page, mapping);
	if (!mapping || ((__u64)mapping & PAGE_MAPPING_FLAGS))
		return 0;
	inode = BPF_CORE_READ(mapping, host);
	super = inode ? BPF_CORE_READ(inode, i_sb) : 0;
	/* the block device's own pages (a journal's, a directory's) belong to a file system without a disk */
	return super && BPF_CORE_READ(super, s_bdev) ? inode : 0;
}

#endif

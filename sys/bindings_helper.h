/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads to make the bindings that the kernel crate lacks; see Kbuild for the list of what is taken from it.
 */

#include <linux/atomic.h>
#include <linux/types.h>
#include <linux/vmalloc.h>
#include <linux/blkdev.h>
#include <linux/gfp.h>
#include <linux/lz4.h>
#include <linux/lzo.h>
#include <linux/part_stat.h>
#include <linux/zlib.h>
#include <linux/zsmalloc.h>
#include <linux/zstd.h>

/* Macros with casts or `sizeof` in them, which bindgen cannot evaluate by itself. */
const size_t RZRAM_LZO1X_MEM_COMPRESS = LZO1X_MEM_COMPRESS;
const size_t RZRAM_LZ4_MEM_COMPRESS = LZ4_MEM_COMPRESS;
const size_t RZRAM_LZ4HC_MEM_COMPRESS = LZ4HC_MEM_COMPRESS;

const blk_status_t RZRAM_BLK_STS_IOERR = BLK_STS_IOERR;
const blk_status_t RZRAM_BLK_STS_NOTSUPP = BLK_STS_NOTSUPP;
const blk_features_t RZRAM_BLK_FEATURES = BLK_FEAT_STABLE_WRITES | BLK_FEAT_SYNCHRONOUS;

/*
 * Allocations on the I/O path may be made on behalf of reclaim: no I/O, and no warning, since a failure is an error on one
 * bio. Pages of the pool may live anywhere and be moved; those of the slot table may not.
 */
const gfp_t RZRAM_GFP_POOL = GFP_NOIO | __GFP_NOWARN | __GFP_HIGHMEM | __GFP_MOVABLE;
const gfp_t RZRAM_GFP_CODEC = GFP_NOIO | __GFP_NOWARN | __GFP_ZERO;
const gfp_t RZRAM_GFP_TABLE = GFP_NOIO | __GFP_NOWARN | __GFP_ZERO;

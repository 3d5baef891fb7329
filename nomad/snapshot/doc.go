// Package snapshot writes and reads archives of the complete state of a cluster:
//
//	gzip( tar( meta.json   index, term and size of the state, one line of JSON
//	           state.bin   the records of the state, as nomad/fsm writes them
//	           SHA256SUMS  "<hex>  <name>" of the two ) )
//
// An archive must be read completely before it is used. Open verifies the compression, the
// entries, and their sizes and checksums. Check reads every record like a server that restores
// the archive. Errors name the defect.
//
//	bytes ──Open──▶ complete ──Check──▶ restorable
//	         └─truncated, modified, unknown version   └─unknown record type, redacted
//
// The state is written to a temporary file that is already unlinked, because it contains keys:
// a crash leaves nothing behind. The package starts no goroutine.
package snapshot

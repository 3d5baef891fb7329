// Package snapshot writes and reads the archive that holds the whole state of a
// cluster (compat/raft-fsm.md section 3):
//
//	gzip( tar( meta.json   where the state stood, one line of JSON
//	           state.bin   the records of the state, as nomad/fsm writes them
//	           SHA256SUMS  "<hex>  <name>" of the two ) )
//
// Nothing may be done with an archive before all of it was read: Open checks the
// compression, the entries, their sizes and sums; Check reads every record as a
// server would. What is wrong is named in the error.
//
//	bytes ──Open──▶ whole ──Check──▶ restorable
//	         └─cut, altered, unknown version        └─unknown record type, redacted
//
// The state is spooled to a file that has no name any more, so a crash leaves
// nothing behind: it holds keys. The package starts no goroutine.
package snapshot

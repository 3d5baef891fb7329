// Package logstore keeps the log and the vote of a server on disk, with one of two libraries: raft-wal (WAL, the default)
// or bbolt (Bolt). Package consensus opens a Store for raft, and a Reader for the log of a stopped server.
//
//	raft directory ──Stored──▶ "", wal or boltdb ──Backend.Open──▶ Store ──Close──▶
//	                               └──OpenReader──▶ Reader          └──Migrate──▶ the other one
//
// What raft-wal v0.4.0 lacks is added around it. Each addition has a test that fails without it:
//
//	scan.go      it treats damage like a write torn by a crash, and drops all entries after it. The segments are
//	             checked before it opens them (TestDamage, TestDamagedCommit, TestDataAfterLastBatch).
//	guard.go     after a failed write its memory and the disk differ. The log is opened again before the next
//	             write, and raft never sees an error for the term (TestFullDisk, TestFullDiskTruncation).
//	wal.go       it cannot read a segment that a truncation has closed (TestTruncatedLogIsRead), and needs free
//	             space for its index (TestFullDiskAtStart). Segments are readable by their owner only.
//	segment.go   each sync commits the file system's journal. Space is zeroed ahead, so that fdatasync suffices.
//	walreader.go it repairs a log when it opens it. A Reader changes nothing.
//
// Proposal to the library, in this order: an option that makes Open fail at damage before the last batch and say where;
// a Sync and a Write that leave the log usable after an error (ENOSPC above all); RecoverTail for segments without an
// index; a read-only Open; the mode of new files as an option. With these, scan.go, guard.go and walreader.go go.
//
// A Store starts no goroutines of its own. It is safe for concurrent use, with one writer at a time.
package logstore

// Package table is the row engine of the replicated state: tables with declared indexes, and the
// transactions that write them.
//
// A Table declares its primary key, its secondary indexes and whether its writes are events. It
// reads through a Reader, and writes through a Txn. Keys are byte strings (KeyOf) whose order is
// the order of the rows. A memdb.WatchSet that is passed to a read fires when the result may have
// changed.
//
// A DB holds the rows. Each log entry is one transaction (DB.Write), or several entries share one
// (DB.WriteBatch). A commit notes the index of the entry for each table that it changed. DB.View is
// an immutable view that is cheap to take and safe for concurrent use. Only one goroutine writes
// at a time. Rows that a read returned must not be modified.
//
// The package has no rules about the rows: those are in nomad/state. It starts no goroutine and
// does no disk I/O.
package table

// Package stream keeps what the last log entries changed, and tells subscribers of it as
// events.
//
// A Broker hears of every entry from nomad/fsm and keeps pointers to the rows that it
// wrote, in a ring of the last entries. Nothing is copied, made or encoded before
// somebody reads: then an entry's events are made once for all readers, and the text of
// each event once, when the first one is to see it.
//
//	Applied ─▶ ring ─Next─▶ Batch ─Events─▶ Event ─▶ JSON, without secrets
//
// A subscriber waits on a channel, never by asking again and again. While there is one
// the ring keeps more entries; one that falls behind all of them is dropped.
//
//	reading ──behind the ring──▶ ErrSlow
//	   └──a restore replaced the state──▶ ErrReplaced
//
// The package decides nothing about rights: Event.Need says what its reader must have.
// It starts no goroutine and writes nothing to disk.
package stream

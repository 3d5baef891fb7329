// Package stream keeps the changes of the last log entries and delivers them to subscribers as
// events.
//
// A Broker receives every entry from nomad/fsm and keeps pointers to the written rows, in a ring of
// the last entries. It copies and encodes nothing before a reader needs it. The events of an entry
// are then built once for all readers, and the JSON of each event is encoded once.
//
//	Applied ─▶ ring ─Next─▶ Batch ─Events─▶ Event ─▶ JSON, without secrets
//
// A subscriber waits on a channel and does not poll. The ring keeps the configured number of entries, and those that a
// subscriber has not read, up to a number and a size. A subscriber that falls behind the oldest one is dropped.
//
//	reading ──behind the ring──▶ ErrSlow
//	   └──a restore replaced the state──▶ ErrReplaced
//
// The package checks no rights: Event.Need returns the rights that a reader must have. It starts no
// goroutine and writes nothing to disk.
package stream

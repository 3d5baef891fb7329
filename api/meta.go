package api

import "time"

// QueryMeta is the metadata of a read. LastIndex is the WaitIndex of the next blocking
// query.
type QueryMeta struct {
	LastIndex   uint64
	LastContact time.Duration
	KnownLeader bool
	RequestTime time.Duration
	NextToken   string
}

// NextIndex returns the WaitIndex of the next blocking query. It is at least 1: a query
// with WaitIndex 0 does not block, and LastIndex is 0 for a table that was never written.
func (m *QueryMeta) NextIndex() uint64 { return max(m.LastIndex, 1) }

// WriteMeta is the metadata of a write.
type WriteMeta struct {
	LastIndex   uint64
	RequestTime time.Duration
}

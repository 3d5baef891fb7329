package message

import "time"

// GenericRequest is the request of methods that need only the query options.
type GenericRequest struct {
	QueryOptions
}

// GenericResponse is the reply of methods that return only an index.
type GenericResponse struct {
	WriteMeta
}

// InternalRpcInfo marks a request that a server forwarded to another server.
type InternalRpcInfo struct {
	Forwarded bool
}

// QueryMeta is embedded in every reply to a read.
type QueryMeta struct {
	Index       uint64
	LastContact time.Duration
	KnownLeader bool
	NextToken   string
}

// QueryOptions is embedded in every read request.
type QueryOptions struct {
	Region        string
	Namespace     string
	MinQueryIndex uint64
	MaxQueryTime  time.Duration
	AllowStale    bool
	Prefix        string
	AuthToken     string
	Filter        string
	PerPage       int32
	NextToken     string
	Reverse       bool
	InternalRpcInfo

	parsed any // not sent
}

// Parsed returns what KeepParsed has kept, or nil.
func (q *QueryOptions) Parsed() any { return q.parsed }

// KeepParsed keeps the parsed form of the options for the time of the request: a blocking query reads the state again each
// time that it changes. It is not part of the message.
func (q *QueryOptions) KeepParsed(v any) { q.parsed = v }

// WriteMeta is embedded in every reply to a write.
type WriteMeta struct {
	Index uint64
}

// WriteRequest is embedded in every write request.
type WriteRequest struct {
	Region           string
	Namespace        string
	AuthToken        string
	IdempotencyToken string
	InternalRpcInfo
}

// Envelope contains the fields that the transport reads from every request.
type Envelope struct {
	Region     string
	Namespace  string
	AuthToken  string
	AllowStale bool
	Forwarded  bool
	Write      bool
}

// Envelope returns the fields that the transport reads from a read request.
func (q *QueryOptions) Envelope() Envelope {
	return Envelope{Region: q.Region, Namespace: q.Namespace, AuthToken: q.AuthToken,
		AllowStale: q.AllowStale, Forwarded: q.Forwarded}
}

// changing is like Envelope, for a request that has the form of a read but changes something.
func (q *QueryOptions) changing() Envelope {
	env := q.Envelope()
	env.Write = true
	return env
}

// Envelope returns the fields that the transport reads from a write request.
func (w *WriteRequest) Envelope() Envelope {
	return Envelope{Region: w.Region, Namespace: w.Namespace, AuthToken: w.AuthToken,
		Forwarded: w.Forwarded, Write: true}
}

// MarkForwarded marks the request as forwarded from another server.
func (i *InternalRpcInfo) MarkForwarded() { i.Forwarded = true }

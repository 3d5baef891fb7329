package nomad

import "time"

// Blocking queries (compat/wire.md section 8).
const (
	JitterFraction          = 16
	MaxBlockingRPCQueryTime = 5 * time.Minute
)

// GenericRequest is the request of methods that need nothing but the query options.
type GenericRequest struct {
	QueryOptions
}

// GenericResponse is the reply of methods that answer with an index only.
type GenericResponse struct {
	WriteMeta
}

// InternalRpcInfo marks a request that one server passed on to another.
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

// QueryOptions is embedded in every read request (compat/wire.md section 8).
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
}

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

// Envelope is what the transport reads of every request.
type Envelope struct {
	Region     string
	Namespace  string
	AuthToken  string
	AllowStale bool
	Forwarded  bool
	Write      bool
}

// Envelope returns what the transport reads of a read request.
func (q *QueryOptions) Envelope() Envelope {
	return Envelope{Region: q.Region, Namespace: q.Namespace, AuthToken: q.AuthToken,
		AllowStale: q.AllowStale, Forwarded: q.Forwarded}
}

// changing is Envelope for what travels as reads do, and changes something.
func (q *QueryOptions) changing() Envelope {
	env := q.Envelope()
	env.Write = true
	return env
}

// Envelope returns what the transport reads of a write request.
func (w *WriteRequest) Envelope() Envelope {
	return Envelope{Region: w.Region, Namespace: w.Namespace, AuthToken: w.AuthToken,
		Forwarded: w.Forwarded, Write: true}
}

// MarkForwarded says that one server passed the request on to another.
func (i *InternalRpcInfo) MarkForwarded() { i.Forwarded = true }

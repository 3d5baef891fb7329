package message

// PeriodicForceRequest is the request of Periodic.Force.
type PeriodicForceRequest struct {
	JobID string
	WriteRequest
}

// PeriodicForceResponse is the reply of Periodic.Force.
type PeriodicForceResponse struct {
	EvalID          string
	EvalCreateIndex uint64
	WriteMeta
}

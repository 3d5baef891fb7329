package message

// AllocExecRequest is the request of Allocations.Exec. The caller then sends ExecInput values. It receives a
// StreamErrWrapper for each ExecOutput, in JSON.
type AllocExecRequest struct {
	JobID   string
	AllocID string
	Task    string
	Tty     bool
	Cmd     []string
	Action  string
	QueryOptions
}

// AllocPortForwardRequest is the request of Allocations.PortForward, which exists only in open-nomad. The
// stream then carries one TCP connection to a port of the allocation, in the messages of Allocations.Exec:
// the input is what the caller sends, the standard output what it receives.
type AllocPortForwardRequest struct {
	AllocID string
	// Port is the label of a port, or a number.
	Port string
	QueryOptions
}

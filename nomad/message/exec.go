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

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

// ExecInput is a message from the caller of an exec session. At most one field is set. A message without fields
// is a keepalive. The tags apply to JSON only; msgpack uses the field names.
type ExecInput struct {
	TtySize *ExecTerminalSize `json:"tty_size,omitempty"`
	Stdin   *ExecIO           `json:"stdin,omitempty"`
}

// ExecTerminalSize is the size of a terminal in characters.
type ExecTerminalSize struct {
	Height int32 `json:"height"`
	Width  int32 `json:"width"`
}

// ExecIO is a chunk of one stream, or its end.
type ExecIO struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// ExecOutput is a message from an exec session. One field is set. Exited comes last.
type ExecOutput struct {
	Stdout *ExecIO     `json:"stdout,omitempty"`
	Stderr *ExecIO     `json:"stderr,omitempty"`
	Exited bool        `json:"exited,omitempty"`
	Result *ExecResult `json:"result,omitempty"`
}

// ExecResult is the exit code and signal of the program.
type ExecResult struct {
	ExitCode  int32 `json:"exit_code,omitempty"`
	Signal    int32 `json:"signal,omitempty"`
	OomKilled bool  `json:"oom_killed,omitempty"`
}

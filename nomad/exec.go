package nomad

// AllocExecRequest is the request of Allocations.Exec. After it the caller sends
// ExecInput, and is sent a StreamErrWrapper for each ExecOutput, in JSON.
type AllocExecRequest struct {
	JobID   string
	AllocID string
	Task    string
	Tty     bool
	Cmd     []string
	Action  string
	QueryOptions
}

// ExecInput is what the caller of an exec session says, one field at a time. With none
// it says that it is still there. The tags are those of JSON; msgpack has the names of
// the fields.
type ExecInput struct {
	TtySize *ExecTerminalSize `json:"tty_size,omitempty"`
	Stdin   *ExecIO           `json:"stdin,omitempty"`
}

// ExecTerminalSize is in characters.
type ExecTerminalSize struct {
	Height int32 `json:"height"`
	Width  int32 `json:"width"`
}

// ExecIO is a piece of one stream, or its end.
type ExecIO struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// ExecOutput is what an exec session says, one field at a time; Exited comes last.
type ExecOutput struct {
	Stdout *ExecIO     `json:"stdout,omitempty"`
	Stderr *ExecIO     `json:"stderr,omitempty"`
	Exited bool        `json:"exited,omitempty"`
	Result *ExecResult `json:"result,omitempty"`
}

// ExecResult is how the program ended.
type ExecResult struct {
	ExitCode  int32 `json:"exit_code,omitempty"`
	Signal    int32 `json:"signal,omitempty"`
	OomKilled bool  `json:"oom_killed,omitempty"`
}

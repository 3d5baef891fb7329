package api

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct {
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
}

// ExecStreamingInput is a message from the caller of an exec session, with one field set.
// Without any field it is a heartbeat.
type ExecStreamingInput struct {
	Stdin   *ExecStreamingIOOperation `json:"stdin,omitempty"`
	TTYSize *TerminalSize             `json:"tty_size,omitempty"`
}

// ExecStreamingIOOperation is a chunk of a stream, or its end.
type ExecStreamingIOOperation struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// ExecStreamingOutput is a message from an exec session, with one field set.
type ExecStreamingOutput struct {
	Stdout *ExecStreamingIOOperation `json:"stdout,omitempty"`
	Stderr *ExecStreamingIOOperation `json:"stderr,omitempty"`
	Exited bool                      `json:"exited,omitempty"`
	Result *ExecStreamingExitResult  `json:"result,omitempty"`
}

// ExecStreamingExitResult is the exit code of the command.
type ExecStreamingExitResult struct {
	ExitCode int `json:"exit_code"`
}

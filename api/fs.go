package api

import "time"

// Origins of streaming, and the names of log streams.
const (
	OriginStart     = "start"
	OriginEnd       = "end"
	FSLogNameStdout = "stdout"
	FSLogNameStderr = "stderr"
)

// AllocFileInfo is a file or directory of an allocation.
type AllocFileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string
}

// StreamFrame is a chunk of a streamed file. A frame without data is a heartbeat or a
// file event.
type StreamFrame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

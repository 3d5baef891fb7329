package api

import "time"

// Where streaming starts, and the streams that tasks log.
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

// StreamFrame is a piece of a file that is being streamed. A frame without data
// keeps the connection alive or carries an event.
type StreamFrame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

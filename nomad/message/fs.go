package message

import "time"

// FsListRequest is the request of FileSystem.List.
type FsListRequest struct {
	AllocID string
	Path    string
	QueryOptions
}

// FsListResponse is the reply of FileSystem.List.
type FsListResponse struct {
	Files []*AllocFileInfo
	QueryMeta
}

// FsLogsRequest is the request of FileSystem.Logs.
type FsLogsRequest struct {
	AllocID   string
	Task      string
	LogType   string
	Offset    int64
	Origin    string
	PlainText bool
	Follow    bool
	QueryOptions
}

// FsStatRequest is the request of FileSystem.Stat.
type FsStatRequest struct {
	AllocID string
	Path    string
	QueryOptions
}

// FsStatResponse is the reply of FileSystem.Stat.
type FsStatResponse struct {
	Info *AllocFileInfo
	QueryMeta
}

// FsStreamRequest is the request of FileSystem.Stream.
type FsStreamRequest struct {
	AllocID   string
	Path      string
	Offset    int64
	Origin    string
	PlainText bool
	Limit     int64
	Follow    bool
	QueryOptions
}

// AllocFileInfo describes a file or directory of an allocation, as reported by the client.
type AllocFileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string
}

// RpcError is an error in a stream, where the HTTP status line is already sent. Code is an HTTP status.
type RpcError struct {
	Message string
	Code    *int64
}

// StreamErrWrapper is one message of a stream from a client: a payload, or the error that ends the stream.
type StreamErrWrapper struct {
	Error   *RpcError
	Payload []byte
}

// StreamFrame is a chunk of a streamed file. A frame without data is a keepalive or carries an event.
type StreamFrame struct {
	Offset    int64
	Data      []byte
	File      string
	FileEvent string
}

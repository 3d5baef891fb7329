package nomad

import "time"

// AllocFileInfo is a file or directory of an allocation, as the client sees it.
type AllocFileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string
}

// FsListRequest is the request of FileSystem.List and FileSystem.List.
type FsListRequest struct {
	AllocID string
	Path    string
	QueryOptions
}

// FsListResponse is the reply of FileSystem.List and FileSystem.List.
type FsListResponse struct {
	Files []*AllocFileInfo
	QueryMeta
}

// FsLogsRequest is the request of FileSystem.Logs and FileSystem.Logs.
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

// FsStatRequest is the request of FileSystem.Stat and FileSystem.Stat.
type FsStatRequest struct {
	AllocID string
	Path    string
	QueryOptions
}

// FsStatResponse is the reply of FileSystem.Stat and FileSystem.Stat.
type FsStatResponse struct {
	Info *AllocFileInfo
	QueryMeta
}

// FsStreamRequest is the request of FileSystem.Stream and FileSystem.Stream.
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

// RpcError is an error within a stream, whose header has long been sent. Code is an
// HTTP status.
type RpcError struct {
	Message string
	Code    *int64
}

// StreamErrWrapper is one message of a stream from a client: a payload, or the error
// that ends it.
type StreamErrWrapper struct {
	Error   *RpcError
	Payload []byte
}

// StreamFrame is a piece of a file that is being streamed. A frame without data
// keeps the connection alive or carries an event.
type StreamFrame struct {
	Offset    int64
	Data      []byte
	File      string
	FileEvent string
}

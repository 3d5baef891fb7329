package message

import "github.com/open-nomad/open-nomad/nomad"

// FsListRequest is the request of FileSystem.List.
type FsListRequest struct {
	AllocID string
	Path    string
	QueryOptions
}

// FsListResponse is the reply of FileSystem.List.
type FsListResponse struct {
	Files []*nomad.AllocFileInfo
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
	Info *nomad.AllocFileInfo
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

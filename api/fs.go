package api

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"
	"time"
)

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

// IsHeartbeat reports whether the frame has neither data nor an event.
func (s *StreamFrame) IsHeartbeat() bool { return len(s.Data) == 0 && s.FileEvent == "" }

// frameBuffer is the number of frames that a stream buffers.
const frameBuffer = 10

// AllocFS is the handle for the files and logs of allocations.
type AllocFS struct{ client *Client }

// AllocFS returns the handle for the files of allocations.
func (c *Client) AllocFS() *AllocFS { return &AllocFS{c} }

func fsPath(verb, allocID string, params url.Values) string {
	return "/v1/client/fs/" + verb + "/" + url.PathEscape(allocID) + "?" + params.Encode()
}

func int64Param(n int64) string { return strconv.FormatInt(n, 10) }

// List lists a directory of an allocation.
func (a *AllocFS) List(alloc *Allocation, path string, q *QueryOptions) ([]*AllocFileInfo, *QueryMeta, error) {
	return get[[]*AllocFileInfo](a.client, fsPath("ls", alloc.ID, url.Values{"path": {path}}), q)
}

// Stat returns the metadata of a file of an allocation.
func (a *AllocFS) Stat(alloc *Allocation, path string, q *QueryOptions) (*AllocFileInfo, *QueryMeta, error) {
	return get[*AllocFileInfo](a.client, fsPath("stat", alloc.ID, url.Values{"path": {path}}), q)
}

// ReadAt reads up to limit bytes of a file, starting at offset. A limit of 0 means all.
func (a *AllocFS) ReadAt(alloc *Allocation, path string, offset, limit int64, q *QueryOptions) (io.ReadCloser, error) {
	return a.client.stream(fsPath("readat", alloc.ID, url.Values{
		"path": {path}, "offset": {int64Param(offset)}, "limit": {int64Param(limit)},
	}), q)
}

// Cat reads a complete file.
func (a *AllocFS) Cat(alloc *Allocation, path string, q *QueryOptions) (io.ReadCloser, error) {
	return a.client.stream(fsPath("cat", alloc.ID, url.Values{"path": {path}}), q)
}

// Stream follows a file, starting at an offset from origin (OriginStart or OriginEnd).
// The channel of frames is closed when cancel is closed or the stream ends. At most one
// error is sent, before the frames are closed.
func (a *AllocFS) Stream(alloc *Allocation, path, origin string, offset int64, cancel <-chan struct{},
	q *QueryOptions) (<-chan *StreamFrame, <-chan error) {
	return a.client.frames(fsPath("stream", alloc.ID, url.Values{
		"path": {path}, "origin": {origin}, "offset": {int64Param(offset)},
	}), cancel, q)
}

// Logs reads the log of a task. logType is FSLogNameStdout or FSLogNameStderr. The offset
// is relative to origin, across rotated files. The channels are closed as by Stream.
func (a *AllocFS) Logs(alloc *Allocation, follow bool, task, logType, origin string, offset int64, cancel <-chan struct{},
	q *QueryOptions) (<-chan *StreamFrame, <-chan error) {
	return a.client.frames(fsPath("logs", alloc.ID, url.Values{
		"follow": {strconv.FormatBool(follow)}, "task": {task}, "type": {logType},
		"origin": {origin}, "offset": {int64Param(offset)},
	}), cancel, q)
}

// frames starts a goroutine that reads path as concatenated frames.
func (c *Client) frames(path string, cancel <-chan struct{}, q *QueryOptions) (<-chan *StreamFrame, <-chan error) {
	frames := make(chan *StreamFrame, frameBuffer)
	errs := make(chan error, 1)
	ctx, stop := context.WithCancel(q.Context())
	body, err := c.stream(path, q.WithContext(ctx))
	if err != nil {
		stop()
		errs <- err
		close(frames)
		return frames, errs
	}
	go func() {
		select {
		case <-cancel:
			stop()
		case <-ctx.Done():
		}
	}()
	go func() {
		defer stop()
		defer close(frames)
		defer body.Close()
		if err := readFrames(ctx, body, frames); err != nil && ctx.Err() == nil {
			errs <- err
		}
	}()
	return frames, errs
}

// readFrames sends frames until the body or ctx ends. It skips heartbeats.
func readFrames(ctx context.Context, body io.Reader, frames chan<- *StreamFrame) error {
	dec := json.NewDecoder(body)
	for {
		var f StreamFrame
		if err := dec.Decode(&f); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if f.IsHeartbeat() {
			continue
		}
		select {
		case frames <- &f:
		case <-ctx.Done():
			return nil
		}
	}
}

// FrameReader reads the data of frames as a byte stream.
type FrameReader struct {
	frames <-chan *StreamFrame
	errs   <-chan error
	cancel chan struct{}
	rest   []byte
	offset int64
	wait   time.Duration // how long Read waits for data, 0: forever
	closed bool
}

// NewFrameReader returns a reader for the channels of Stream or Logs. Close closes cancelCh.
func NewFrameReader(frames <-chan *StreamFrame, errCh <-chan error, cancelCh chan struct{}) *FrameReader {
	return &FrameReader{frames: frames, errs: errCh, cancel: cancelCh}
}

// Offset returns the file offset after the last Read.
func (f *FrameReader) Offset() int { return int(f.offset) }

// SetUnblockTime makes a Read without data return 0 bytes after d.
func (f *FrameReader) SetUnblockTime(d time.Duration) { f.wait = d }

// Read reads the data of the next frames. It skips file events.
func (f *FrameReader) Read(p []byte) (int, error) {
	var unblock <-chan time.Time
	if f.wait > 0 && len(f.rest) == 0 {
		timer := time.NewTimer(f.wait)
		defer timer.Stop()
		unblock = timer.C
	}
	for len(f.rest) == 0 {
		var frame *StreamFrame
		var ok bool
		select {
		case frame, ok = <-f.frames:
		case <-unblock:
			return 0, nil
		}
		if !ok {
			select {
			case err := <-f.errs:
				return 0, err
			default:
				return 0, io.EOF
			}
		}
		f.rest = frame.Data
		f.offset = frame.Offset - int64(len(frame.Data))
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	f.offset += int64(n)
	return n, nil
}

// Close ends the stream.
func (f *FrameReader) Close() error {
	if !f.closed {
		f.closed = true
		close(f.cancel)
	}
	return nil
}

package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) fsRoutes() []route {
	const fs = "/v1/client/fs/"
	return []route{
		{methods: "GET", path: fs + "ls/:alloc_id", cors: true, handle: read("FileSystem.List", func(r *request, q *message.FsListRequest) error {
			q.AllocID, q.Path = r.param, cmp.Or(r.query.Get("path"), "/")
			return nil
		}, func(o *message.FsListResponse) (any, error) { return o.Files, nil })},
		{methods: "GET", path: fs + "stat/:alloc_id", cors: true, handle: read("FileSystem.Stat", func(r *request, q *message.FsStatRequest) error {
			q.AllocID, q.Path = r.param, r.query.Get("path")
			return needPath(q.Path)
		}, func(o *message.FsStatResponse) (any, error) { return o.Info, nil })},
		{methods: "GET", path: fs + "cat/:alloc_id", cors: true, handle: s.fsCat},
		{methods: "GET", path: fs + "readat/:alloc_id", cors: true, handle: s.fsReadAt},
		{methods: "GET", path: fs + "stream/:alloc_id", cors: true, handle: s.fsStream},
		{methods: "GET", path: fs + "logs/:alloc_id", cors: true, handle: s.fsLogs},
	}
}

func needPath(p string) error {
	if p == "" {
		return nomad.Errorf(http.StatusBadRequest, "Must provide a file path: use ?path=")
	}
	return nil
}

func (s *Server) fsCat(r *request) (any, error) {
	q := message.FsStreamRequest{AllocID: r.param, Path: r.query.Get("path"), Origin: "start", PlainText: true}
	return s.file(r, &q)
}

func (s *Server) fsReadAt(r *request) (any, error) {
	q := message.FsStreamRequest{AllocID: r.param, Path: r.query.Get("path"), Origin: "start", PlainText: true}
	var err error
	if !r.query.Has("offset") {
		return nil, nomad.Errorf(http.StatusBadRequest, "Must provide an offset: use ?offset=")
	}
	if q.Offset, err = r.number("offset"); err != nil {
		return nil, err
	}
	if q.Limit, err = r.number("limit"); err != nil {
		return nil, err
	}
	return s.file(r, &q)
}

// file streams one file as untrusted content that a browser must not execute.
func (s *Server) file(r *request, q *message.FsStreamRequest) (any, error) {
	if err := needPath(q.Path); err != nil {
		return nil, err
	}
	h := r.w.Header()
	h.Set("Content-Type", contentType(q.Path))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-XSS-Protection", "1; mode=block")
	return nil, s.relay(r, "FileSystem.Stream", q)
}

// contentType returns the media type of a file. Types that can contain scripts become plain text.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".json":
		return "application/json"
	case ".gz", ".tgz", ".zip", ".bin", ".tar":
		return "application/octet-stream"
	default:
		return "text/plain; charset=utf-8"
	}
}

func (s *Server) fsStream(r *request) (any, error) {
	q := message.FsStreamRequest{AllocID: r.param, Path: r.query.Get("path")}
	if err := needPath(q.Path); err != nil {
		return nil, err
	}
	var err error
	if q.Follow, err = r.flagOr("follow", true); err != nil {
		return nil, err
	}
	if q.Offset, q.Origin, err = r.offset(); err != nil {
		return nil, err
	}
	r.w.Header().Set("Content-Type", "application/json")
	return nil, s.relay(r, "FileSystem.Stream", &q)
}

func (s *Server) fsLogs(r *request) (any, error) {
	q := message.FsLogsRequest{AllocID: r.param, Task: r.query.Get("task"), LogType: r.query.Get("type")}
	if q.Task == "" {
		return nil, nomad.Errorf(http.StatusBadRequest, "Must provide task name: use ?task=")
	}
	if q.LogType != "stdout" && q.LogType != "stderr" {
		return nil, nomad.Errorf(http.StatusBadRequest, "Must provide log type (stdout/stderr), not %q", q.LogType)
	}
	var err error
	if q.Follow, err = r.flag("follow"); err != nil {
		return nil, err
	}
	if q.PlainText, err = r.flag("plain"); err != nil {
		return nil, err
	}
	if q.Offset, q.Origin, err = r.offset(); err != nil {
		return nil, err
	}
	if q.PlainText {
		r.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		r.w.Header().Set("X-Content-Type-Options", "nosniff")
	} else {
		r.w.Header().Set("Content-Type", "application/json")
	}
	return nil, s.relay(r, "FileSystem.Logs", &q)
}

func (r *request) offset() (int64, string, error) {
	origin := cmp.Or(r.query.Get("origin"), "start")
	if origin != "start" && origin != "end" {
		return 0, "", nomad.Errorf(http.StatusBadRequest, "Invalid origin %q: use start or end", origin)
	}
	n, err := r.number("offset")
	if err == nil && n < 0 {
		err = nomad.Errorf(http.StatusBadRequest, "Invalid offset %d: it must not be negative", n)
	}
	return n, origin, err
}

// relay opens a streaming RPC and writes its chunks to the reply. An error before the first byte
// becomes a status. A later error aborts the body, so that the client detects the truncation.
func (s *Server) relay(r *request, method string, req reads) error {
	q := req.Query()
	if err := r.readOptions(q); err != nil {
		return err
	}
	stream, err := s.cfg.RPC.Stream(r.Context(), method)
	if err != nil {
		return err
	}
	defer stream.Close()
	defer closeWhenGone(r, stream)()
	if err := stream.Encode(req); err != nil {
		return err
	}
	flusher := http.NewResponseController(r.w)
	for first := true; ; first = false {
		var chunk nomad.StreamErrWrapper
		switch err := stream.Decode(&chunk); {
		case errors.Is(err, io.EOF):
			return errDone
		case err != nil:
			return s.cut(r, first, err)
		}
		if chunk.Error != nil {
			return s.cut(r, first, streamError(chunk.Error))
		}
		if _, err := r.w.Write(chunk.Payload); err != nil {
			return errDone
		}
		flusher.Flush() // a writer without Flush sends at the end
	}
}

// closeWhenGone closes the stream when the client disconnects, so that a blocked Decode returns.
// The returned function ends the wait.
func closeWhenGone(r *request, c io.Closer) func() {
	done := make(chan struct{})
	go func() {
		select {
		case <-r.Context().Done():
			c.Close()
		case <-done:
		}
	}()
	return func() { close(done) }
}

// cut ends a reply after an error. If bytes were sent, it aborts the connection.
func (s *Server) cut(r *request, first bool, err error) error {
	if first || errors.Is(err, errDone) {
		return err
	}
	if r.Context().Err() == nil { // otherwise the client has disconnected
		s.cfg.Log.Debug("closing stream", "path", r.URL.Path, "err", err)
		panic(http.ErrAbortHandler)
	}
	return errDone
}

// streamError returns the error of the last chunk of a stream, errDone at a normal end.
func streamError(e *nomad.RpcError) error {
	if e.Message == io.EOF.Error() {
		return errDone
	}
	if e.Code != nil {
		return nomad.Errorf(int(*e.Code), "%s", e.Message)
	}
	return nomad.ErrorFromText(e.Message)
}

// rawJSON returns a reply that is already JSON.
func rawJSON(b []byte) any { return json.RawMessage(b) }

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

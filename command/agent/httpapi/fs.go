package httpapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func (s *Server) fsRoutes() []web.Route {
	const fs = "/v1/client/fs/"
	return []web.Route{
		{Methods: "GET", Path: fs + "ls/:alloc_id", CORS: true,
			Handle: web.Read("FileSystem.List", func(r *web.Request, q *message.FsListRequest) error {
				q.AllocID, q.Path = r.Param, cmp.Or(r.Query.Get("path"), "/")
				return nil
			}, func(o *message.FsListResponse) (any, error) { return o.Files, nil })},
		{Methods: "GET", Path: fs + "stat/:alloc_id", CORS: true,
			Handle: web.Read("FileSystem.Stat", func(r *web.Request, q *message.FsStatRequest) error {
				q.AllocID, q.Path = r.Param, r.Query.Get("path")
				return needPath(q.Path)
			}, func(o *message.FsStatResponse) (any, error) { return o.Info, nil })},
		{Methods: "GET", Path: fs + "cat/:alloc_id", CORS: true, Handle: s.fsCat},
		{Methods: "GET", Path: fs + "readat/:alloc_id", CORS: true, Handle: s.fsReadAt},
		{Methods: "GET", Path: fs + "stream/:alloc_id", CORS: true, Handle: s.fsStream},
		{Methods: "GET", Path: fs + "logs/:alloc_id", CORS: true, Handle: s.fsLogs},
	}
}

func needPath(p string) error {
	if p == "" {
		return apierror.Errorf(http.StatusBadRequest, "Must provide a file path: use ?path=")
	}
	return nil
}

func (s *Server) fsCat(r *web.Request) (any, error) {
	q := message.FsStreamRequest{AllocID: r.Param, Path: r.Query.Get("path"), Origin: "start", PlainText: true}
	return s.file(r, &q)
}

func (s *Server) fsReadAt(r *web.Request) (any, error) {
	q := message.FsStreamRequest{AllocID: r.Param, Path: r.Query.Get("path"), Origin: "start", PlainText: true}
	var err error
	if !r.Query.Has("offset") {
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide an offset: use ?offset=")
	}
	if q.Offset, err = r.Number("offset"); err != nil {
		return nil, err
	}
	if q.Limit, err = r.Number("limit"); err != nil {
		return nil, err
	}
	return s.file(r, &q)
}

// file streams one file as untrusted content that a browser must not execute.
func (s *Server) file(r *web.Request, q *message.FsStreamRequest) (any, error) {
	if err := needPath(q.Path); err != nil {
		return nil, err
	}
	h := r.Reply.Header()
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

func (s *Server) fsStream(r *web.Request) (any, error) {
	q := message.FsStreamRequest{AllocID: r.Param, Path: r.Query.Get("path")}
	if err := needPath(q.Path); err != nil {
		return nil, err
	}
	var err error
	if q.Follow, err = r.FlagOr("follow", true); err != nil {
		return nil, err
	}
	if q.Offset, q.Origin, err = offset(r); err != nil {
		return nil, err
	}
	r.Reply.Header().Set("Content-Type", "application/json")
	return nil, s.relay(r, "FileSystem.Stream", &q)
}

func (s *Server) fsLogs(r *web.Request) (any, error) {
	q := message.FsLogsRequest{AllocID: r.Param, Task: r.Query.Get("task"), LogType: r.Query.Get("type")}
	if q.Task == "" {
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide task name: use ?task=")
	}
	if q.LogType != "stdout" && q.LogType != "stderr" {
		return nil, apierror.Errorf(http.StatusBadRequest, "Must provide log type (stdout/stderr), not %q", q.LogType)
	}
	var err error
	if q.Follow, err = r.Flag("follow"); err != nil {
		return nil, err
	}
	if q.PlainText, err = r.Flag("plain"); err != nil {
		return nil, err
	}
	if q.Offset, q.Origin, err = offset(r); err != nil {
		return nil, err
	}
	if q.PlainText {
		r.Reply.Header().Set("Content-Type", "text/plain; charset=utf-8")
		r.Reply.Header().Set("X-Content-Type-Options", "nosniff")
	} else {
		r.Reply.Header().Set("Content-Type", "application/json")
	}
	return nil, s.relay(r, "FileSystem.Logs", &q)
}

func offset(r *web.Request) (int64, string, error) {
	origin := cmp.Or(r.Query.Get("origin"), "start")
	if origin != "start" && origin != "end" {
		return 0, "", apierror.Errorf(http.StatusBadRequest, "Invalid origin %q: use start or end", origin)
	}
	n, err := r.Number("offset")
	if err == nil && n < 0 {
		err = apierror.Errorf(http.StatusBadRequest, "Invalid offset %d: it must not be negative", n)
	}
	return n, origin, err
}

// relay opens a streaming RPC and writes its chunks to the reply. An error before the first byte
// becomes a status. A later error aborts the body, so that the client detects the truncation.
func (s *Server) relay(r *web.Request, method string, req interface{ Query() *message.QueryOptions }) error {
	q := req.Query()
	if err := r.ReadOptions(q); err != nil {
		return err
	}
	stream, err := r.RPC().Stream(r.Context(), method)
	if err != nil {
		return err
	}
	defer stream.Close()
	defer closeWhenGone(r, stream)()
	if err := stream.Encode(req); err != nil {
		return err
	}
	flusher := http.NewResponseController(r.Reply)
	for first := true; ; first = false {
		var chunk message.StreamErrWrapper
		switch err := stream.Decode(&chunk); {
		case errors.Is(err, io.EOF):
			return web.ErrDone
		case err != nil:
			return s.disconnect(r, first, err)
		}
		if chunk.Error != nil {
			return s.disconnect(r, first, streamError(chunk.Error))
		}
		if _, err := r.Reply.Write(chunk.Payload); err != nil {
			return web.ErrDone
		}
		flusher.Flush() // a writer without Flush sends at the end
	}
}

// closeWhenGone closes the stream when the client disconnects, so that a blocked Decode returns.
// The returned function ends the wait.
func closeWhenGone(r *web.Request, c io.Closer) func() {
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

// disconnect ends a reply after an error. If bytes were sent, it aborts the connection.
func (s *Server) disconnect(r *web.Request, first bool, err error) error {
	if first || errors.Is(err, web.ErrDone) {
		return err
	}
	if r.Context().Err() == nil { // otherwise the client has disconnected
		s.cfg.Log.Debug("closing stream", "path", r.URL.Path, "err", err)
		panic(http.ErrAbortHandler)
	}
	return web.ErrDone
}

// streamError returns the error of the last chunk of a stream, web.ErrDone at a normal end.
func streamError(e *message.RpcError) error {
	if e.Message == io.EOF.Error() {
		return web.ErrDone
	}
	if e.Code != nil {
		return apierror.Errorf(int(*e.Code), "%s", e.Message)
	}
	return apierror.FromText(e.Message)
}

// rawJSON returns a reply that is already JSON.
func rawJSON(b []byte) any { return json.RawMessage(b) }

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

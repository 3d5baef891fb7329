package endpoint

import (
	"context"
	"net/http"

	"github.com/open-nomad/open-nomad/client/allocs"
	"github.com/open-nomad/open-nomad/client/logs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// files handles requests about the files and logs of an allocation.
type files struct{ allocs *allocs.Set }

// list lists a directory.
func (h files) list(_ context.Context, _ *rpc.Call, req *message.FsListRequest) (*message.FsListResponse, error) {
	t, err := h.allocs.Files(req.AllocID)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	files, err := t.List(req.Path)
	if err != nil {
		return nil, err
	}
	return &message.FsListResponse{Files: files}, nil
}

// stat describes a file.
func (h files) stat(_ context.Context, _ *rpc.Call, req *message.FsStatRequest) (*message.FsStatResponse, error) {
	t, err := h.allocs.Files(req.AllocID)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	info, err := t.Stat(req.Path)
	if err != nil {
		return nil, err
	}
	return &message.FsStatResponse{Info: info}, nil
}

// stream streams one file.
func (h files) stream(ctx context.Context, _ *rpc.Call, req *message.FsStreamRequest, s *rpc.Stream) error {
	t, err := h.allocs.Files(req.AllocID)
	if err != nil {
		return err
	}
	defer t.Close()
	if req.Path == "" {
		return apierror.Errorf(http.StatusBadRequest, "must provide a file name")
	}
	ctx, cancel := s.UntilClosed(ctx)
	defer cancel()
	part := logs.Range{Origin: req.Origin, Offset: req.Offset, Limit: req.Limit, Follow: req.Follow}
	return ended(ctx, t.StreamFile(ctx, req.Path, part, logs.Output{Frame: framer(req.PlainText), Sink: payloads(s)}))
}

// logs streams a log of a task.
func (h files) logs(ctx context.Context, _ *rpc.Call, req *message.FsLogsRequest, s *rpc.Stream) error {
	t, err := h.allocs.Files(req.AllocID)
	if err != nil {
		return err
	}
	defer t.Close()
	if req.Task == "" {
		return apierror.Errorf(http.StatusBadRequest, "must provide task name")
	}
	started, err := h.allocs.Task(req.AllocID, req.Task)
	if err != nil {
		return err
	}
	if !started {
		return apierror.Errorf(http.StatusNotFound, "task %q not started yet: no logs available", req.Task)
	}
	ctx, cancel := s.UntilClosed(ctx)
	defer cancel()
	part := logs.Range{Origin: req.Origin, Offset: req.Offset, Follow: req.Follow,
		Over: func() bool { return h.allocs.Over(req.AllocID, req.Task) }}
	log := logs.Log{Task: req.Task, Type: req.LogType}
	return ended(ctx, t.StreamLog(ctx, log, part, logs.Output{Frame: framer(req.PlainText), Sink: payloads(s)}))
}

// framer selects plain bytes or JSON frames.
func framer(plain bool) logs.Framer {
	if plain {
		return logs.Plain
	}
	return logs.JSON
}

// payloads wraps each payload in an envelope.
func payloads(s *rpc.Stream) logs.Sink {
	return func(b []byte) error { return s.Encode(&message.StreamErrWrapper{Payload: b}) }
}

// ended drops the error of a stream whose reader is gone.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

package client

import (
	"context"
	"net/http"
	"path/filepath"

	"github.com/open-nomad/open-nomad/client/logs"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
)

// tree opens the directory of an allocation of this node.
func (c *Client) tree(allocID string) (*logs.Tree, error) {
	if _, err := c.allocs.find(allocID); err != nil {
		return nil, err
	}
	return logs.OpenTree(filepath.Join(c.cfg.AllocDir, allocID))
}

func (c *Client) fsList(_ context.Context, _ *rpc.Call, req *message.FsListRequest) (*message.FsListResponse, error) {
	t, err := c.tree(req.AllocID)
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

func (c *Client) fsStat(_ context.Context, _ *rpc.Call, req *message.FsStatRequest) (*message.FsStatResponse, error) {
	t, err := c.tree(req.AllocID)
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

// fsStream streams one file.
func (c *Client) fsStream(ctx context.Context, _ *rpc.Call, req *message.FsStreamRequest, s *rpc.Stream) error {
	t, err := c.tree(req.AllocID)
	if err != nil {
		return err
	}
	defer t.Close()
	if req.Path == "" {
		return nomad.Errorf(http.StatusBadRequest, "must provide a file name")
	}
	ctx, cancel := s.UntilClosed(ctx)
	defer cancel()
	part := logs.Range{Origin: req.Origin, Offset: req.Offset, Limit: req.Limit, Follow: req.Follow}
	return ended(ctx, t.StreamFile(ctx, req.Path, part, framer(req.PlainText), payloads(s)))
}

// fsLogs streams a log of a task.
func (c *Client) fsLogs(ctx context.Context, _ *rpc.Call, req *message.FsLogsRequest, s *rpc.Stream) error {
	t, err := c.tree(req.AllocID)
	if err != nil {
		return err
	}
	defer t.Close()
	if req.Task == "" {
		return nomad.Errorf(http.StatusBadRequest, "must provide task name")
	}
	started, err := c.allocs.task(req.AllocID, req.Task)
	if err != nil {
		return err
	}
	if !started {
		return nomad.Errorf(http.StatusNotFound, "task %q not started yet: no logs available", req.Task)
	}
	ctx, cancel := s.UntilClosed(ctx)
	defer cancel()
	part := logs.Range{Origin: req.Origin, Offset: req.Offset, Follow: req.Follow,
		Over: func() bool { return c.allocs.over(req.AllocID, req.Task) }}
	log := logs.Log{Task: req.Task, Type: req.LogType}
	return ended(ctx, t.StreamLog(ctx, log, part, framer(req.PlainText), payloads(s)))
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
	return func(b []byte) error { return s.Encode(&nomad.StreamErrWrapper{Payload: b}) }
}

// ended drops the error of a stream whose reader is gone.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// headroom is how far a restore moves the log on. Entries that are applied while
// it begins stay below the index that the tables get.
const headroom = 1 << 16

// Save returns an archive of the state and its digest. The leader saves everything
// that was acknowledged; another server what it knows.
func (s *Server) Save(ctx context.Context) (archive *os.File, digest string, err error) {
	if s.raft.IsLeader() {
		if err := s.raft.Barrier(ctx); err != nil {
			return nil, "", err
		}
	}
	meta, state, err := s.raft.Save()
	if err != nil {
		return nil, "", err
	}
	defer state.Close() // only read from
	f, err := snapshot.Temp(s.SpoolDir())
	if err != nil {
		return nil, "", err
	}
	if digest, err = snapshot.Write(f, meta, state); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, digest, nil
}

// SpoolDir is the server's own directory; that of the system for a server that
// keeps everything in memory.
func (s *Server) SpoolDir() string {
	if s.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(s.cfg.DataDir, "server")
}

// Restore puts a checked archive in the place of the state of the whole region. The
// term of this leader ends before and a new one begins after, so that nothing that
// was decided on the old state is done to the new one.
func (s *Server) Restore(ctx context.Context, archive *snapshot.Archive) error {
	done := make(chan error, 1)
	select {
	case s.pauses <- func() { done <- s.replace(archive) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := <-done; err != nil {
		return err
	}
	return s.leading.wait(ctx)
}

// replace is Restore while nothing of the leader runs.
func (s *Server) replace(archive *snapshot.Archive) error {
	meta := archive.Meta
	meta.Index = max(meta.Index, s.raft.LastIndex()) + headroom
	state, size, err := archive.StateAt(meta.Index)
	if err != nil {
		return err
	}
	meta.Size = size
	if err := s.raft.Restore(&meta, state); err != nil {
		return err
	}
	s.log.Info("restored a snapshot", "taken_at", archive.Meta.Index, "index", meta.Index)
	return nil
}

// pause ends the term of leadership, runs fn and begins a new term, if there was one.
func (s *Server) pause(ctx context.Context, end func(), fn func()) func() {
	if end != nil {
		end()
	}
	fn()
	if end == nil {
		return nil
	}
	return s.beginTerm(ctx)
}

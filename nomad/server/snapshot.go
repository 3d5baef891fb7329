package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// headroom is how far a restore advances the index. Entries applied during the restore stay
// below the index of the restored tables.
const headroom = 1 << 16

// Save returns an archive of the state and its digest. The leader includes all acknowledged
// writes; another server saves its own state.
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
	defer state.Close() // read only
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

// SpoolDir returns the server's own directory, or the system's temporary directory if
// everything is in memory.
func (s *Server) SpoolDir() string {
	if s.cfg.DataDir == "" {
		return ""
	}
	return filepath.Join(s.cfg.DataDir, "server")
}

// Restore replaces the state of the region with a verified archive. The leader's term ends
// before and a new term begins after it, so that no decision on the old state is applied to the
// new one.
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

// replace is Restore while the leader's duties are stopped.
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

// pause stops the leader's duties, runs fn, and starts them again in a new term if this server
// was the leader.
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

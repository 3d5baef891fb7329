package config

import (
	"log/slog"
	"path/filepath"

	"github.com/open-nomad/open-nomad/nomad/consensus/logstore"
)

// checkLogstore checks how the Raft log is stored on disk. raft_boltdb is the older name of
// raft_logstore.boltdb.
func (s *Settings) checkLogstore() error {
	switch name := s.Server.RaftLogstore.Backend; {
	case name != logstore.WAL && name != logstore.Bolt:
		return s.Fault("server.raft_logstore.backend", "must be wal or boltdb, not %q", name)
	case name == logstore.Bolt || !s.noFreelistSync():
		return nil
	}
	path := "server.raft_logstore.boltdb.no_freelist_sync"
	if s.Server.RaftBoltdb.NoFreelistSync {
		path = "server.raft_boltdb.no_freelist_sync"
	}
	return s.Fault(path, "not supported with raft_logstore { backend = \"wal\" }")
}

// selectLogBackend selects boltdb if a boltdb setting is given and no backend is named.
func (s *Settings) selectLogBackend() {
	if !s.NamesLogBackend() && s.noFreelistSync() {
		s.Server.RaftLogstore.Backend = logstore.Bolt
	}
}

// NamesLogBackend reports whether the configuration names the backend of the Raft log.
func (s *Settings) NamesLogBackend() bool {
	_, named := s.set["server.raft_logstore.backend"]
	return named
}

// KeepLogBackend selects the backend that wrote the existing Raft log, unless the configuration
// names one.
func (s *Settings) KeepLogBackend(serverDir string, log *slog.Logger) error {
	if s.NamesLogBackend() || serverDir == "" {
		return nil
	}
	found, err := logstore.Stored(filepath.Join(serverDir, "raft"))
	if err != nil || found == "" || found == s.Server.RaftLogstore.Backend {
		return err
	}
	log.Info("using the backend that wrote the existing Raft log", "backend", found, "default", s.Server.RaftLogstore.Backend)
	s.Server.RaftLogstore.Backend = found
	return nil
}

func (s *Settings) noFreelistSync() bool {
	return s.Server.RaftLogstore.Boltdb.NoFreelistSync || s.Server.RaftBoltdb.NoFreelistSync
}

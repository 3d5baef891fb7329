package servers

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// Snapshots saves and restores the complete state.
type Snapshots interface {
	// Save returns an archive of the state, positioned at its start, and its digest.
	Save(ctx context.Context) (archive *os.File, digest string, err error)
	// Restore replaces the state with a checked archive.
	Restore(ctx context.Context, archive *snapshot.Archive) error
	// SpoolDir is the directory for archives that are not yet checked.
	SpoolDir() string
}

// SaveSnapshot sends an archive. It completes the archive first, because the digest is sent
// before the archive.
func (s *Service) SaveSnapshot(ctx context.Context, c *rpc.Call, _ *message.SnapshotSaveRequest, to *rpc.Stream) error {
	if err := handler.ForOperators(c); err != nil {
		return err
	}
	f, digest, err := s.cfg.Snapshots.Save(ctx)
	if err != nil {
		return err
	}
	defer f.Close() // read-only, and already unlinked
	out := &message.SnapshotSaveResponse{SnapshotChecksum: digest}
	out.Index = s.Raft.AppliedIndex()
	out.KnownLeader, out.LastContact = s.Cluster.Contact()
	if err := to.Encode(out); err != nil {
		return nil // the caller is gone
	}
	if _, err := io.Copy(to, f); err != nil {
		s.Log.Warn("send snapshot", "err", err) // the caller notices the truncated stream
	}
	return nil
}

// RestoreSnapshot reads and checks the complete archive before it restores it.
func (s *Service) RestoreSnapshot(ctx context.Context, c *rpc.Call, _ *message.SnapshotRestoreRequest, from *rpc.Stream) error {
	if err := handler.ForOperators(c); err != nil {
		return err
	}
	archive, err := snapshot.Open(&chunks{from: from}, s.cfg.Snapshots.SpoolDir())
	if err != nil {
		return handler.BadRequest(err)
	}
	defer archive.Close() // already unlinked
	if err := archive.Check(); err != nil {
		return handler.BadRequest(err)
	}
	if err := s.cfg.Snapshots.Restore(ctx, archive); err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	out := &message.SnapshotRestoreResponse{}
	out.Index = s.Raft.AppliedIndex()
	out.KnownLeader, out.LastContact = s.Cluster.Contact()
	return from.Encode(out)
}

// chunks reads an archive that a caller sends in chunks. A chunk with the error EOF is the
// end. A stream without it is truncated.
type chunks struct {
	from *rpc.Stream
	left []byte
	err  error
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	for len(c.left) == 0 && c.err == nil {
		var next message.StreamErrWrapper
		err := c.from.Decode(&next)
		switch {
		case err == io.EOF:
			c.err = io.ErrUnexpectedEOF
		case err != nil:
			c.err = err
		case next.Error == nil:
			c.left = next.Payload
		case next.Error.Message == io.EOF.Error():
			c.err = io.EOF
		default:
			c.err = fmt.Errorf("sender failed: %s", next.Error.Message)
		}
	}
	n := copy(p, c.left)
	c.left = c.left[n:]
	if n == 0 {
		return 0, c.err
	}
	return n, nil
}

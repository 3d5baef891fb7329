package logstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"
)

// zeroStep is how many bytes of zeros are written ahead of the entries at a time.
const zeroStep = 1 << 20

var zeros [zeroStep]byte

// segmentVFS opens log segments as segmentFiles, which sync cheaply.
type segmentVFS struct{ types.VFS }

// Create implements types.VFS.
func (v segmentVFS) Create(dir, name string, size uint64) (types.WritableFile, error) {
	f, err := v.VFS.Create(dir, name, size)
	if err != nil {
		return nil, err
	}
	return &segmentFile{WritableFile: f, size: int64(size)}, nil
}

// OpenWriter implements types.VFS.
func (v segmentVFS) OpenWriter(dir, name string) (types.WritableFile, error) {
	f, err := v.VFS.OpenWriter(dir, name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(dir, name))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open raft log: %w", err), f.Close())
	}
	s := &segmentFile{WritableFile: f, size: info.Size(), written: unknown}
	s.listed.Store(true)
	return s, nil
}

// unknown means that another process wrote the segment, so the end of its zeros is not known.
// New data is appended at the end; nothing after it counts.
const unknown = -1

// segmentFile is a segment open for writing. Its space is allocated when it is created. The
// first write to a block still changes file system metadata, and a sync must then commit the
// journal, which waits for all other writers. So segmentFile writes zeros ahead, and most syncs
// (fdatasync) write only the appended data.
type segmentFile struct {
	types.WritableFile
	size    int64
	written int64 // written or zeroed up to here, or unknown
	listed  atomic.Bool
}

// WriteAt implements io.WriterAt.
func (s *segmentFile) WriteAt(p []byte, at int64) (int, error) {
	if s.written == unknown {
		s.written = at
	}
	for s.written < min(at+int64(len(p)), s.size) {
		step := min(zeroStep, s.size-s.written)
		if _, err := s.WritableFile.WriteAt(zeros[:step], s.written); err != nil {
			return 0, fmt.Errorf("write raft log ahead: %w", err)
		}
		s.written += step
	}
	return s.WritableFile.WriteAt(p, at)
}

// Sync returns when the written data is on disk. The first sync of a new file also syncs its
// metadata.
func (s *segmentFile) Sync() error {
	fd, ok := s.WritableFile.(interface{ Fd() uintptr })
	if !ok || !s.listed.Swap(true) {
		return s.WritableFile.Sync()
	}
	for {
		err := unix.Fdatasync(int(fd.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

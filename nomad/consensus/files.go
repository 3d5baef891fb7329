package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/hashicorp/raft-wal/types"
	"golang.org/x/sys/unix"
)

// zeroStep is how far ahead of its entries a segment holds zeros.
const zeroStep = 1 << 20

var zeros [zeroStep]byte

// segmentVFS opens log segments of type segmentFile, whose syncs are cheap.
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

// unknown is how far a segment was written ahead by the server that made it. What is
// written next comes at the end: nothing behind it counts.
const unknown = -1

// segmentFile is a segment that is written to. Its space is set aside when it is
// made, but the first write to a block still changes what the file system notes of
// the file, and a sync must then commit that: it waits for the writes of all others.
// So zeros are written ahead, a step at a time, and syncs leave the times of the file
// alone: all but one in some hundred only write what was appended.
type segmentFile struct {
	types.WritableFile
	size    int64
	written int64 // up to here it was written, or is unknown
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

// Sync returns when what was written is on the disk. The first one of a new file
// makes sure that the file itself is, too.
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

package artifact

import (
	"context"
	"fmt"
	"time"

	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/safefs"
)

const (
	watchEvery = 250 * time.Millisecond
	// watchShare bounds the share of time that measuring takes, for large trees: 1/4.
	watchShare = 3
	// maxDepth is the maximum depth of a download. One descriptor is open for each level.
	maxDepth = 128
	// maxEntries is the maximum number of entries of a download that is not an archive.
	maxEntries = 1 << 18
	// ownEntries and ownBytes are for the directories and files of the program.
	ownEntries = 256
	ownBytes   = 4 << 20
)

// usage is the size of a tree.
type usage struct {
	bytes   int64
	entries int
}

// bounds returns the limits of a step; 0 is unlimited.
func (j *job) bounds(req *fetch.Request) usage {
	l := req.Limits
	if req.Archive != "" {
		// With a subdirectory, the library unpacks everything and copies a part of it.
		return usage{bytes: times2(l.Unpacked, ownBytes), entries: int(times2(int64(l.Files), ownEntries))}
	}
	if j.kind == fetch.HTTP {
		return usage{bytes: plus(l.Download, ownBytes), entries: ownEntries}
	}
	// A repository has its history and its files. Neither is an archive.
	return usage{bytes: times2(max(l.Download, l.Unpacked), ownBytes), entries: maxEntries}
}

func plus(limit, more int64) int64 {
	if limit == 0 {
		return 0
	}
	return limit + more
}

func times2(limit, more int64) int64 { return plus(2*limit, more) }

// fileSize returns the limit of a single file of a step.
func (j *job) fileSize(req *fetch.Request) uint64 {
	if req.Archive != "" {
		return uint64(req.Limits.Unpacked)
	}
	return uint64(req.Limits.Download)
}

// watch measures the program's directory until ctx ends, and once more then. It returns an error as soon as a
// limit is exceeded.
func (j *job) watch(ctx context.Context, req *fetch.Request) error {
	limit := j.bounds(req)
	wait := watchEvery
	for {
		ended := false
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			ended = true
		}
		begun := time.Now()
		m := &meter{limit: limit}
		if err := m.add(j.stage.work, 0); err != nil {
			return err
		}
		if j.kind != fetch.HTTP && req.Archive == "" { // for HTTP, the program also sends the total
			j.report(fetch.Message{Bytes: m.have.bytes})
		}
		if ended {
			return nil
		}
		wait = max(watchEvery, watchShare*time.Since(begun))
	}
}

// meter measures a tree that is being changed.
type meter struct{ have, limit usage }

func (m *meter) add(dir *safefs.Dir, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("the download has more than %d levels of directories", maxDepth)
	}
	return dir.Each(func(name string, info safefs.Info) error {
		m.have.entries++
		m.have.bytes += max(info.Disk, info.Size)
		switch {
		case m.limit.entries > 0 && m.have.entries > m.limit.entries:
			return fmt.Errorf("the download has more files than the limit of %d", m.limit.entries)
		case m.limit.bytes > 0 && m.have.bytes > m.limit.bytes:
			return fmt.Errorf("the download is larger than the limit of %d bytes", m.limit.bytes)
		case !info.Mode.IsDir():
			return nil
		}
		sub, err := dir.Sub(name)
		if err != nil {
			return nil //nolint:nilerr // removed or replaced, or unreadable without root: later checks fail
		}
		defer sub.Close()
		return m.add(sub, depth+1)
	})
}

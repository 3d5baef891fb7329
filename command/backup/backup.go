// Package backup takes periodic snapshots of the servers' state and keeps the newest ones
// as files. It implements "nomad operator snapshot agent".
//
//	waiting ──interval over──▶ fetching ──verified──▶ kept ──▶ old snapshots removed
//	   ▲                          └─error─▶ backing off ──▶ fetching        │
//	   └────────────────────────────────────────────────────────────────────┘
//
// A snapshot is verified under a temporary name and then renamed. Its mode is 0600, because
// it has keys. File names have the time in UTC, so they sort by time:
//
//	<prefix>-20060102T150405.000Z.snap
//
// Only files with such names are removed, the oldest first, after a new snapshot was kept.
// The next snapshot is due one interval after the newest file, so frequent restarts of the
// agent do not replace old snapshots.
//
// A lock on <dir>/.<prefix>.lock prevents two agents from managing the same files. The
// package does not call servers itself and starts no goroutines.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// The first and the longest wait after a failure. The interval limits them too.
const (
	backoffMin = time.Second
	backoffMax = 5 * time.Minute
)

// timeLayout is the format of the time in file names.
const timeLayout = "20060102T150405.000Z"

// Config configures an Agent.
type Config struct {
	// Fetch returns an archive. Its reader returns an error if the archive is truncated.
	Fetch func(ctx context.Context) (io.ReadCloser, error)
	// Dir is the directory of the files. It must exist.
	Dir string
	// Prefix is the prefix of the file names.
	Prefix string
	// Interval is the time between two snapshots.
	Interval time.Duration
	// Timeout limits the duration of one snapshot.
	Timeout time.Duration
	// Retain is the number of snapshots to keep, at least one.
	Retain int
	Log    *slog.Logger
}

// Agent takes snapshots.
type Agent struct {
	cfg  Config
	lock *os.File
	name *regexp.Regexp // matches the files of this agent
}

var goodPrefix = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// New checks the configuration, locks the directory and removes temporary files of a killed
// agent. The caller must close the agent.
func New(cfg Config) (*Agent, error) {
	switch {
	case cfg.Interval <= 0:
		return nil, errors.New("the interval between snapshots must be positive")
	case cfg.Timeout <= 0:
		return nil, errors.New("the timeout of a snapshot must be positive")
	case cfg.Retain < 1:
		return nil, errors.New("at least one snapshot must be retained")
	case !goodPrefix().MatchString(cfg.Prefix):
		return nil, fmt.Errorf("the prefix %q of file names is invalid: only letters, digits, '.', '_' and '-' are allowed", cfg.Prefix)
	}
	quoted := regexp.QuoteMeta(cfg.Prefix)
	a := &Agent{cfg: cfg, name: regexp.MustCompile(`^` + quoted + `-(\d{8}T\d{6}\.\d{3}Z)\.snap$`)}
	if err := a.take(); err != nil {
		return nil, err
	}
	half := regexp.MustCompile(`^\.` + quoted + `-\d{8}T\d{6}\.\d{3}Z\.snap-\d+$`)
	entries, err := os.ReadDir(cfg.Dir)
	for _, e := range entries {
		if half.MatchString(e.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(cfg.Dir, e.Name())))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the snapshot directory: %w", err), a.Close())
	}
	return a, nil
}

// take locks the directory.
func (a *Agent) take() (err error) {
	path := filepath.Join(a.cfg.Dir, "."+a.cfg.Prefix+".lock")
	if a.lock, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("lock the snapshot directory: %w", err)
	}
	if err := unix.Flock(int(a.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("another agent takes snapshots %s-* in %s: %w", a.cfg.Prefix, a.cfg.Dir, err), a.lock.Close())
	}
	return nil
}

// Close unlocks the directory.
func (a *Agent) Close() error { return a.lock.Close() }

// Run takes snapshots until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	wait := a.due(time.Now())
	again := backoff.Backoff{Min: backoffMin, Max: backoffMax}
	a.cfg.Log.Info("taking snapshots", "dir", a.cfg.Dir, "interval", a.cfg.Interval, "retain", a.cfg.Retain, "next_in", wait)
	for {
		if err := backoff.Sleep(ctx, wait); err != nil {
			return err
		}
		begun := time.Now()
		err := a.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			wait = a.cfg.Interval - time.Since(begun)
			again.Reset()
		default:
			wait = min(again.Next(), a.cfg.Interval)
			a.cfg.Log.Error("take a snapshot", "err", err, "retry_in", wait)
		}
	}
}

// due returns the time until the next snapshot, one interval after the newest.
func (a *Agent) due(now time.Time) time.Duration {
	names, err := a.files()
	if err != nil || len(names) == 0 {
		return 0
	}
	last, err := time.Parse(timeLayout, a.name.FindStringSubmatch(names[len(names)-1])[1])
	if err != nil {
		return 0 // digits that are not a valid time
	}
	return min(max(0, last.Add(a.cfg.Interval).Sub(now)), a.cfg.Interval)
}

// files lists the snapshots, oldest first.
func (a *Agent) files() ([]string, error) {
	entries, err := os.ReadDir(a.cfg.Dir)
	var out []string
	for _, e := range entries {
		if e.Type().IsRegular() && a.name.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, err
}

// Once takes one snapshot and removes old ones.
func (a *Agent) Once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Timeout)
	defer cancel()
	begun := time.Now()
	name := filepath.Join(a.cfg.Dir, a.cfg.Prefix+"-"+begun.UTC().Format(timeLayout)+".snap")
	var index uint64
	var size int64
	err := Replace(name, func(f *os.File) (err error) {
		index, size, err = a.fetch(ctx, f)
		return err
	})
	if err != nil {
		return err
	}
	a.cfg.Log.Info("took a snapshot", "file", name, "index", index, "bytes", size, "took", time.Since(begun).Round(time.Millisecond))
	a.rotate()
	return nil
}

// fetch writes an archive to f and verifies it as a restore does.
func (a *Agent) fetch(ctx context.Context, f *os.File) (index uint64, size int64, err error) {
	body, err := a.cfg.Fetch(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer body.Close() // opened for reading only
	if size, err = io.Copy(f, body); err != nil {
		return 0, 0, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	archive, err := snapshot.Open(f, a.cfg.Dir)
	if err != nil {
		return 0, 0, err
	}
	defer archive.Close() // the file has no name
	return archive.Meta.Index, size, archive.Check()
}

// rotate removes the oldest snapshots. After an error it retries with the next snapshot.
func (a *Agent) rotate() {
	names, err := a.files()
	if err != nil {
		a.cfg.Log.Warn("list snapshots", "err", err)
		return
	}
	for _, name := range names[:max(0, len(names)-a.cfg.Retain)] {
		if err := os.Remove(filepath.Join(a.cfg.Dir, name)); err != nil {
			a.cfg.Log.Warn("remove an old snapshot", "err", err)
			continue
		}
		a.cfg.Log.Info("removed an old snapshot", "file", name)
	}
}

// Replace writes a file atomically, with mode 0600.
func Replace(name string, write func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(name))
}

// syncDir flushes a new file name to disk.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

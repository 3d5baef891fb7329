// Package backup takes snapshots of the servers' state by time and keeps the newest
// of them as files: what "nomad operator snapshot agent" does.
//
//	waiting ──interval over──▶ fetching ──whole, and a server could restore it──▶ kept ──▶ old ones removed
//	   ▲                          └─anything else─▶ backing off ──▶ fetching          │
//	   └──────────────────────────────────────────────────────────────────────────────┘
//
// A file has its name only once it was read back and checked; it is 0600, as it holds
// keys. Names carry the time in UTC, so that they sort by it:
//
//	<prefix>-20060102T150405.000Z.snap
//
// Only files of such names are ever removed, the oldest first, and only after a new
// one was kept. The newest one also says when the next is due: an agent that is
// restarted again and again does not push old snapshots out.
//
// A lock on <dir>/.<prefix>.lock keeps two agents from the same files. The package
// speaks to no server itself, and starts no goroutine.
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

	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// Waits after a failure: from the first to the last, never longer than the interval.
const (
	backoffMin = time.Second
	backoffMax = 5 * time.Minute
)

// timeLayout is the time in the name of a file.
const timeLayout = "20060102T150405.000Z"

// Config is how an Agent works.
type Config struct {
	// Fetch returns an archive; its reader fails when the archive did not come whole.
	Fetch func(ctx context.Context) (io.ReadCloser, error)
	// Dir is where the files are. It must exist.
	Dir string
	// Prefix begins the names of the files.
	Prefix string
	// Interval is the time between two snapshots.
	Interval time.Duration
	// Timeout bounds the taking of one.
	Timeout time.Duration
	// Retain is how many are kept, at least one.
	Retain int
	Log    *slog.Logger
}

// Agent takes snapshots.
type Agent struct {
	cfg  Config
	lock *os.File
	name *regexp.Regexp // of the files that are ours
}

var goodPrefix = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// New checks the configuration, takes the lock of the directory and removes what an
// agent that was killed left half done. The caller closes the agent.
func New(cfg Config) (*Agent, error) {
	switch {
	case cfg.Interval <= 0:
		return nil, errors.New("the interval between snapshots must be positive")
	case cfg.Timeout <= 0:
		return nil, errors.New("the timeout of a snapshot must be positive")
	case cfg.Retain < 1:
		return nil, errors.New("at least one snapshot must be retained")
	case !goodPrefix.MatchString(cfg.Prefix):
		return nil, fmt.Errorf("the prefix %q of file names is not made of letters, digits, '.', '_' and '-'", cfg.Prefix)
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
		return nil, errors.Join(fmt.Errorf("look into the directory of snapshots: %w", err), a.Close())
	}
	return a, nil
}

// take takes the lock.
func (a *Agent) take() (err error) {
	path := filepath.Join(a.cfg.Dir, "."+a.cfg.Prefix+".lock")
	if a.lock, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return fmt.Errorf("lock the directory of snapshots: %w", err)
	}
	if err := unix.Flock(int(a.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("another agent takes snapshots %s-* in %s: %w", a.cfg.Prefix, a.cfg.Dir, err), a.lock.Close())
	}
	return nil
}

// Close lets others take the directory.
func (a *Agent) Close() error { return a.lock.Close() }

// Run takes snapshots until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	wait := a.due(time.Now())
	back := backoffMin
	a.cfg.Log.Info("taking snapshots", "dir", a.cfg.Dir, "interval", a.cfg.Interval, "retain", a.cfg.Retain, "first_in", wait)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		begun := time.Now()
		err := a.Once(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			wait, back = max(0, a.cfg.Interval-time.Since(begun)), backoffMin
		default:
			wait = min(back, a.cfg.Interval)
			back = min(2*back, backoffMax)
			a.cfg.Log.Error("take a snapshot", "err", err, "again_in", wait)
		}
	}
}

// due says when the next snapshot is to be taken: an interval after the newest.
func (a *Agent) due(now time.Time) time.Duration {
	names, err := a.files()
	if err != nil || len(names) == 0 {
		return 0
	}
	last, err := time.Parse(timeLayout, a.name.FindStringSubmatch(names[len(names)-1])[1])
	if err != nil {
		return 0 // digits that are no time
	}
	return min(max(0, last.Add(a.cfg.Interval).Sub(now)), a.cfg.Interval)
}

// files lists the snapshots, the oldest first.
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

// Once takes one snapshot, and then removes those that are too many.
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

// fetch writes an archive to f and reads it back as a server would that restores it.
func (a *Agent) fetch(ctx context.Context, f *os.File) (index uint64, size int64, err error) {
	body, err := a.cfg.Fetch(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer body.Close() // only read from
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
	defer archive.Close() // nameless
	return archive.Meta.Index, size, archive.Check()
}

// rotate removes the oldest snapshots. One that can't be removed is tried again next
// time.
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

// Replace writes a file of mode 0600 whole or not at all.
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

// syncDir makes a new name last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

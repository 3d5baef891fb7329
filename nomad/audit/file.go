package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// file is the current file of a log. Each write appends complete lines.
type file struct {
	path string
	log  *slog.Logger
	now  func() time.Time

	mu    sync.Mutex
	cfg   Config
	dir   *safefs.Dir
	f     *os.File // nil after close
	size  int64
	begun time.Time
	torn  bool      // the last line is incomplete
	pause time.Time // no rotation before this time
}

// openFile opens the file of a configuration. It creates the file and its directory if
// necessary.
func openFile(cfg Config, log *slog.Logger, now func() time.Time) (*file, error) {
	fl := &file{path: cfg.Path, log: log, now: now, cfg: cfg}
	if err := fl.reopen(cfg); err != nil {
		return nil, err
	}
	return fl, nil
}

// reopen applies cfg and opens the file at its path again.
func (fl *file) reopen(cfg Config) error {
	dir, err := openDir(filepath.Dir(cfg.Path), cfg.OwnDir)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	fl.mu.Lock()
	defer fl.mu.Unlock()
	next, err := opening{dir, cfg.Mode, fl.now()}.take(filepath.Base(cfg.Path), fl.f)
	if err != nil {
		dir.Close() // the error of take matters
		return fmt.Errorf("audit log: %w", err)
	}
	var errs []error
	if next.f == fl.f {
		errs = append(errs, fl.dir.Close())
		fl.dir, fl.cfg = dir, cfg
		return errors.Join(errs...)
	}
	if fl.f != nil {
		errs = append(errs, fl.f.Close(), fl.dir.Close())
	}
	fl.cfg, fl.dir, fl.pause = cfg, dir, time.Time{}
	fl.begin(next)
	return errors.Join(errs...)
}

func (fl *file) begin(t taken) { fl.f, fl.size, fl.begun, fl.torn = t.f, t.size, t.begun, t.torn }

// write appends lines. It writes all of them or none.
func (fl *file) write(lines []byte, now time.Time) error {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.f == nil {
		return fs.ErrClosed
	}
	if fl.due(int64(len(lines)), now) {
		fl.rotate(now)
	}
	if fl.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := fl.f.Write(lines)
	fl.size += int64(n)
	if err != nil {
		fl.mend(int64(n))
		return fmt.Errorf("audit log: %w", err)
	}
	fl.torn = false
	return nil
}

// mend removes a partial write. If another process also writes to the file, or if truncation
// fails, the next line begins with a newline.
func (fl *file) mend(n int64) {
	if n == 0 {
		return
	}
	info, err := fl.f.Stat()
	if err == nil && info.Size() == fl.size && fl.f.Truncate(fl.size-n) == nil {
		fl.size -= n
		return
	}
	fl.torn = true
}

func (fl *file) close() error {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.f == nil {
		return nil
	}
	err := errors.Join(fl.f.Close(), fl.dir.Close())
	fl.f = nil
	return err
}

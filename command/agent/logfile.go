package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/config"
	"github.com/open-nomad/open-nomad/internal/rotate"
)

// logFile is the file of log_file. The current file keeps its name. When it reaches its size or
// age, it is renamed to <name>-<nanoseconds since 1970>.log.
type logFile struct {
	path  string
	bytes int64         // 0 for no limit
	every time.Duration // 0 for no limit
	keep  int           // number of renamed files; 0 for all, negative for none

	mu     sync.Mutex
	file   *os.File // nil after close
	size   int64
	opened time.Time
}

// defaultLogName is the name of the file if log_file is a directory.
const defaultLogName = "nomad.log"

// openLogFile opens the file of log_file, or returns nil if it is not set.
func openLogFile(s *config.Settings) (*logFile, error) {
	if s.LogFile == "" {
		return nil, nil
	}
	l := &logFile{path: s.LogFile, bytes: int64(s.LogRotateBytes), every: s.LogRotateDuration, keep: s.LogRotateMaxFiles}
	if info, err := os.Stat(l.path); strings.HasSuffix(l.path, "/") || err == nil && info.IsDir() {
		l.path = filepath.Join(l.path, defaultLogName)
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o750); err != nil {
		return nil, fmt.Errorf("log_file: %w", err)
	}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("log_file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("log_file: %w", err), f.Close())
	}
	l.file, l.size, l.opened = f, info.Size(), time.Now()
	return nil
}

// Write writes a line, and rotates the file first if it reached its size or age.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return 0, os.ErrClosed
	}
	full := l.bytes > 0 && l.size > 0 && l.size+int64(len(p)) > l.bytes
	if old := l.every > 0 && time.Since(l.opened) >= l.every; full || old && l.size > 0 {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// rotate renames the current file and opens a new one. If the rename fails, logging continues in
// the current file.
func (l *logFile) rotate() error {
	to := filepath.Join(filepath.Dir(l.path), rotate.Name(filepath.Base(l.path), time.Now()))
	if err := os.Rename(l.path, to); err != nil {
		l.opened = time.Now() // retry later
		return nil
	}
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	return errors.Join(old.Close(), l.prune())
}

// prune removes the oldest renamed files beyond the number to keep.
func (l *logFile) prune() error {
	if l.keep == 0 {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(l.path))
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	var errs []error
	for _, name := range rotate.Expired(names, filepath.Base(l.path), l.keep) {
		errs = append(errs, os.Remove(filepath.Join(filepath.Dir(l.path), name)))
	}
	return errors.Join(errs...)
}

// reopen opens the file again after an external rotation renamed it.
func (l *logFile) reopen() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.file
	if old == nil {
		return os.ErrClosed
	}
	if err := l.open(); err != nil {
		return err
	}
	return old.Close()
}

func (l *logFile) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

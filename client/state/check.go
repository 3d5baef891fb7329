package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/open-nomad/open-nomad/internal/companion"
	"github.com/open-nomad/open-nomad/internal/firstbytes"
)

// Limits of the process that reads a file.
const (
	maxTime   = time.Minute
	maxReport = 4 << 10 // maximum size of its output, in bytes
)

// check reads an existing file completely before anything may write to it.
func check(path string, abandon bool) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open client state database: %w", err)
	}
	if err := checkPages(path); err != nil {
		return err
	}
	b, err := openFile(path, &bolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	defer b.Close() // no error matters: read only
	return guard(path, func() error { return checkForm(b, path, abandon) })
}

// checkPages runs a process that reads the file (process.go). Bbolt does not validate the
// numbers in a file. On a damaged file it may panic in its own goroutine, read unmapped memory
// or loop forever. Only the separate process is affected.
//
// Bbolt does not check offsets and lengths within an inline bucket, which is stored in its
// parent's page. Some damage there is not detected.
func checkPages(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, companion.Self())
	cmd.Args, cmd.Dir, cmd.Env = []string{entry, path}, "/", environment
	out := &firstbytes.Buffer{Limit: maxReport}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if err == nil {
		return nil
	}
	exit, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return corrupt(path, fmt.Errorf("reading it takes more than %v", maxTime))
	case !ran || exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL: // may be the OOM killer
		return fmt.Errorf("run a process that checks client state database %s: %w", path, err)
	case exit.ExitCode() == exitInUse:
		return fmt.Errorf("client state database %s is %w", path, ErrInUse)
	case exit.ExitCode() == exitFailed:
		return fmt.Errorf("check client state database: %s", out.FirstLine())
	}
	return corrupt(path, fmt.Errorf("%w: %s", err, out.FirstLine()))
}

// openFile opens the bolt file and converts its errors to one line each.
func openFile(path string, opts *bolt.Options) (b *bolt.DB, err error) {
	err = guard(path, func() error {
		b, err = bolt.Open(path, 0o600, opts)
		return err
	})
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, ErrCorrupt):
		return nil, err
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("client state database %s is %w", path, ErrInUse)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open client state database: %w", err)
	}
	return nil, corrupt(path, err)
}

// guard runs fn on a checked file. It converts panics of bbolt, caused by damage that the check
// did not find, to errors.
func guard(path string, fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = corrupt(path, fmt.Errorf("%v", r))
		}
	}()
	return fn()
}

func corrupt(path string, err error) error {
	return fmt.Errorf("client state database %s is %w: %w", path, ErrCorrupt, err)
}

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// check reads an existing file from one end to the other before anything may
// write to it.
func check(path string, abandon bool) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open client state database: %w", err)
	}
	b, err := openFile(path, &bolt.Options{Timeout: lockTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	defer b.Close() // nothing to lose: read only
	err = guard(path, func() error {
		file, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Not bbolt's own check: it has a goroutine of its own, where nothing catches
		// what it does on a page that makes no sense.
		return walk(file, b.Info().PageSize)
	})
	if err != nil {
		return err
	}
	return checkForm(b, path, abandon)
}

// openFile opens the bolt file and gives its faults one line each.
func openFile(path string, opts *bolt.Options) (b *bolt.DB, err error) {
	err = guard(path, func() error {
		b, err = bolt.Open(path, 0o600, opts)
		return err
	})
	return b, err
}

// guard runs fn on a file that may be damaged: bbolt panics on impossible pages
// and the processor faults on pages that a truncated file no longer has.
func guard(path string, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("client state database %s is %w: %v", path, ErrCorrupt, r)
		}
	}()
	err = fn()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("client state database %s is %w", path, ErrInUse)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open client state database: %w", err)
	}
	return fmt.Errorf("client state database %s is %w: %w", path, ErrCorrupt, err)
}

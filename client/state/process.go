package state

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/companion"
)

// entry is argv[0] of the process that reads a file. The path is its only argument.
const entry = "nomad-state-check"

func init() { companion.Register(entry, process) }

// Exit statuses of the process. Any other status, or a signal, means a damaged file.
const (
	exitDamaged = 3
	exitInUse   = 4
	exitFailed  = 5 // the file could not be read at all
)

// mapped is the size of bbolt's mapping. An element's offset and lengths have 32 bits each. So
// a damaged element refers to data in the file or to mapped pages beyond its end. Reading those
// ends the process with SIGBUS.
const mapped = 64 << 30

// process is the main function of the process.
func process() int {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "want one argument: the path of a client state database")
		return exitFailed
	}
	if err := limit(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailed
	}
	err := read(os.Args[1])
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrInUse):
		return exitInUse
	case errors.Is(err, ErrCorrupt):
		fmt.Fprintln(os.Stderr, err)
		return exitDamaged
	}
	fmt.Fprintln(os.Stderr, err)
	return exitFailed
}

// limit sets the resource limits of the process.
func limit() error {
	for _, l := range []struct {
		what  string
		which int
		most  uint64
	}{
		{"data", unix.RLIMIT_DATA, maxMemory},
		{"processor time", unix.RLIMIT_CPU, uint64(maxTime.Seconds())},
		{"file size", unix.RLIMIT_FSIZE, 0},
		{"core size", unix.RLIMIT_CORE, 0},
	} {
		if err := unix.Setrlimit(l.which, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limit the %s: %w", l.what, err)
		}
	}
	return nil
}

// read runs bbolt's page check on a file, and reads every key and value.
func read(path string) error {
	b, err := openFile(path, &bolt.Options{Timeout: lockTimeout, ReadOnly: true, PreLoadFreelist: true, FreelistType: freelist,
		InitialMmapSize: mapped})
	if err != nil {
		return err
	}
	// Not closed: bbolt's check still runs after its first error. The exit of the process ends
	// both.
	err = b.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		return tx.ForEach(readBucket)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// readBucket reads a bucket and all below it. It checks the order of keys, which bbolt's check
// skips in inline buckets.
func readBucket(name []byte, b *bolt.Bucket) error {
	var last []byte
	err := b.ForEach(func(key, value []byte) error {
		if bytes.Compare(key, last) <= 0 { // an empty key is invalid too
			return errors.New("keys are not in order")
		}
		last = key
		if value != nil {
			crc32.ChecksumIEEE(value) // touches every byte
			return nil
		}
		child := b.Bucket(key)
		if child == nil {
			return fmt.Errorf("bucket %q is not found by its key", key)
		}
		return readBucket(key, child)
	})
	if err != nil {
		return fmt.Errorf("bucket %q: %w", name, err)
	}
	return nil
}

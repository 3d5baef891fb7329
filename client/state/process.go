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

// entry is argv[0] of the process that reads a file. Its only argument is the path.
const entry = "nomad-state-check"

func init() { companion.Register(entry, process) }

// Exit statuses of the process. Any other one, or a signal, is of a damaged file.
const (
	exitDamaged = 3
	exitInUse   = 4
	exitFailed  = 5 // the file could not be read at all
)

// mapped is how much of the address space bbolt maps the file to. The place and the two
// lengths of an element have 32 bits each. So whatever a damaged element refers to is in
// the file, or it is mapped beyond the file's end: reading it ends the process.
const mapped = 64 << 30

// process is the whole process.
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

// limit bounds this process.
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

// read has bbolt check the pages of a file, and reads every key and value.
func read(path string) error {
	b, err := openFile(path, &bolt.Options{Timeout: lockTimeout, ReadOnly: true, PreLoadFreelist: true, FreelistType: freelist, InitialMmapSize: mapped})
	if err != nil {
		return err
	}
	// It is not closed: after the first fault bbolt's check still runs. The end of the
	// process ends both.
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

// readBucket reads a bucket and all below it. Bbolt's check leaves out the order of keys in
// small buckets, which are stored within their parent.
func readBucket(name []byte, b *bolt.Bucket) error {
	var last []byte
	err := b.ForEach(func(key, value []byte) error {
		if bytes.Compare(key, last) <= 0 { // an empty key is not allowed either
			return errors.New("keys are not in order")
		}
		last = key
		if value != nil {
			crc32.ChecksumIEEE(value) // every byte must be there
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

package wire

import (
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// secretName is the file with the secret in the supervisor's directory. The client that starts the
// first supervisor makes it.
const secretName = "secret"

// secretBytes is the length of the secret before encoding.
const secretBytes = 32

// Secret authenticates a connection to the supervisor. The peer's uid is not enough, since tasks of
// a rootless agent have the agent's uid. A secret does not print.
type Secret struct{ text string }

func (Secret) String() string   { return "supervisor secret" }
func (Secret) GoString() string { return "supervisor secret" }

// Hello returns the first request of a connection.
func (s Secret) Hello() *Request { return &Request{Op: OpHello, Secret: s.text} }

// Admits reports whether the first request of a connection presents the secret. It compares in constant time.
func (s Secret) Admits(hello *Request) bool {
	return hello.Op == OpHello && !hello.Separate && len(s.text) > 0 &&
		subtle.ConstantTimeCompare([]byte(s.text), []byte(hello.Secret)) == 1
}

// EnsureSecret reads the secret of the directory, and makes it if it does not exist.
func EnsureSecret(dir *os.File) (Secret, error) {
	s, err := ReadSecret(dir)
	if !errors.Is(err, unix.ENOENT) {
		return s, err
	}
	if err := makeFile(dir); err != nil {
		return Secret{}, fmt.Errorf("make supervisor secret: %w", err)
	}
	return ReadSecret(dir)
}

// ReadSecret reads the secret. The file must be one that only its owner could read and write.
func ReadSecret(dir *os.File) (Secret, error) {
	s, err := readFile(dir)
	if err != nil {
		return s, fmt.Errorf("read supervisor secret %s/%s: %w", dir.Name(), secretName, err)
	}
	return s, nil
}

func readFile(dir *os.File) (Secret, error) {
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), secretName, flags, 0)
	if err != nil {
		return Secret{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Secret{}, err
	}
	if st.Mode != unix.S_IFREG|0o600 || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return Secret{}, fmt.Errorf("mode %#o, %d links, owner %d: want a regular file of mode 0600 with one link, owned by %d",
			st.Mode, st.Nlink, st.Uid, os.Geteuid())
	}
	raw := make([]byte, 2*secretBytes+2)
	n, err := unix.Pread(fd, raw, 0)
	if err != nil {
		return Secret{}, err
	}
	text := strings.TrimSuffix(string(raw[:n]), "\n")
	if b, err := hex.DecodeString(text); err != nil || len(b) != secretBytes {
		return Secret{}, errors.New("the file does not hold a secret")
	}
	return Secret{text}, nil
}

// makeFile makes the file unless it exists. The file gets its name when it is complete and on
// disk, so that a reader never sees a part of it, even after a power failure.
func makeFile(dir *os.File) error {
	raw := make([]byte, secretBytes+8) // the last 8 bytes are for the name of the new file
	// Not crypto/rand, which would make the companion, and so each start of a task, larger.
	if n, err := unix.Getrandom(raw, 0); err != nil || n != len(raw) {
		return fmt.Errorf("getrandom: %d bytes, %w", n, err)
	}
	text := hex.EncodeToString(raw[:secretBytes]) + "\n"
	at, temp := int(dir.Fd()), secretName+"."+hex.EncodeToString(raw[secretBytes:])
	fd, err := unix.Openat(at, temp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), temp)
	defer f.Close()
	err = f.Chmod(0o600) // regardless of the umask
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = unix.Renameat2(at, temp, at, secretName, unix.RENAME_NOREPLACE)
	}
	if err == unix.EINVAL { // the file system does not support the flag: the last client wins
		err = unix.Renameat(at, temp, at, secretName)
	}
	if err == nil {
		return nil
	}
	unix.Unlinkat(at, temp, 0) //nolint:errcheck // a leftover is not used
	if err == unix.EEXIST {    // another client was first
		return nil
	}
	return err
}

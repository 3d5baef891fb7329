package supervise

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

// secret authenticates a connection to the supervisor. The peer's uid is not enough, since tasks of
// a rootless agent have the agent's uid. A secret does not print.
type secret struct{ text string }

func (secret) String() string   { return "supervisor secret" }
func (secret) GoString() string { return "supervisor secret" }

// equal compares in constant time.
func (s secret) equal(given string) bool {
	return len(s.text) > 0 && subtle.ConstantTimeCompare([]byte(s.text), []byte(given)) == 1
}

// ensureSecret reads the secret of the directory, and makes it if it does not exist.
func ensureSecret(dir *os.File) (secret, error) {
	s, err := readSecret(dir)
	if !errors.Is(err, unix.ENOENT) {
		return s, err
	}
	if err := makeSecret(dir); err != nil {
		return secret{}, fmt.Errorf("make supervisor secret: %w", err)
	}
	return readSecret(dir)
}

// readSecret reads the secret. The file must be one that only its owner could read and write.
func readSecret(dir *os.File) (secret, error) {
	s, err := readSecretFile(dir)
	if err != nil {
		return s, fmt.Errorf("read supervisor secret %s/%s: %w", dir.Name(), secretName, err)
	}
	return s, nil
}

func readSecretFile(dir *os.File) (secret, error) {
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), secretName, flags, 0)
	if err != nil {
		return secret{}, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return secret{}, err
	}
	if st.Mode != unix.S_IFREG|0o600 || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return secret{}, fmt.Errorf("mode %#o, %d links, owner %d: want a regular file of mode 0600 with one link, owned by %d",
			st.Mode, st.Nlink, st.Uid, os.Geteuid())
	}
	raw := make([]byte, 2*secretBytes+2)
	n, err := unix.Pread(fd, raw, 0)
	if err != nil {
		return secret{}, err
	}
	text := strings.TrimSuffix(string(raw[:n]), "\n")
	if b, err := hex.DecodeString(text); err != nil || len(b) != secretBytes {
		return secret{}, errors.New("the file does not hold a secret")
	}
	return secret{text}, nil
}

// makeSecret makes the file unless it exists. The file gets its name when it is complete and on
// disk, so that a reader never sees a part of it, even after a power failure.
func makeSecret(dir *os.File) error {
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

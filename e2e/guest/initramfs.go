package guest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Initramfs is an archive that the kernel unpacks at boot (cpio, "newc"). The directories of a file
// must be added before the file, because the kernel does not create them.
type Initramfs struct {
	out  *bufio.Writer
	next int // inode
	dirs map[string]bool
	err  error // the first, returned by Close
}

// NewInitramfs starts an archive.
func NewInitramfs(w io.Writer) *Initramfs {
	return &Initramfs{out: bufio.NewWriterSize(w, 1<<20), next: 1, dirs: map[string]bool{".": true}}
}

// Modes of entries, as in stat.
const (
	modeDir  = 0o40000
	modeFile = 0o100000
	modeLink = 0o120000
)

// Dir adds a directory and its parents.
func (a *Initramfs) Dir(name string, perm uint32) {
	name = strings.TrimPrefix(filepath.Clean(name), "/")
	if a.dirs[name] {
		return
	}
	a.Dir(filepath.Dir(name), 0o755)
	a.dirs[name] = true
	a.entry(name, modeDir|perm, nil)
}

// File adds a file with a content, owned by root.
func (a *Initramfs) File(name string, perm uint32, content []byte) {
	name = strings.TrimPrefix(filepath.Clean(name), "/")
	a.Dir(filepath.Dir(name), 0o755)
	a.entry(name, modeFile|perm, content)
}

// Link adds a symbolic link.
func (a *Initramfs) Link(name, target string) {
	name = strings.TrimPrefix(filepath.Clean(name), "/")
	a.Dir(filepath.Dir(name), 0o755)
	a.entry(name, modeLink|0o777, []byte(target))
}

// Copy adds a file of this machine.
func (a *Initramfs) Copy(name string, perm uint32, from string) {
	content, err := os.ReadFile(from)
	if err != nil {
		a.fail(err)
		return
	}
	a.File(name, perm, content)
}

// Close ends the archive and returns the first error.
func (a *Initramfs) Close() error {
	a.entry("TRAILER!!!", 0, nil)
	a.fail(a.out.Flush())
	return a.err
}

func (a *Initramfs) fail(err error) {
	if a.err == nil && err != nil {
		a.err = fmt.Errorf("write initramfs: %w", err)
	}
}

// entry writes a header of thirteen hexadecimal numbers, the name and the content, both padded to
// four bytes.
func (a *Initramfs) entry(name string, mode uint32, content []byte) {
	head := "070701"
	for _, v := range []int{a.next, int(mode), 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0} {
		head += fmt.Sprintf("%08x", v)
	}
	a.next++
	a.padded([]byte(head + name + "\x00"))
	a.padded(content)
}

func (a *Initramfs) padded(b []byte) {
	_, err := a.out.Write(b)
	a.fail(err)
	_, err = a.out.Write(make([]byte, (4-len(b)%4)%4))
	a.fail(err)
}

package mounts

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// maxTable limits the size of the list of mounts, which plugins can make long.
const maxTable = 64 << 20

// point is a mount below Dir.
type point struct {
	rel    string // relative to Dir, "." for Dir itself
	shared bool
}

// deletedSuffix is at the end of mount points whose directory was removed in another mount namespace. The mount goes away.
const deletedSuffix = "//deleted"

// unescape replaces the octal escapes of mountinfo.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// table returns the mounts at and below Dir, the latest last. It asks the kernel only, because the server of a file system may
// be gone or hang.
func (m *Manager) table(top *safefs.Dir) ([]point, error) {
	real, err := realPath(top)
	if err != nil {
		return nil, err
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var out []point
	lines := bufio.NewScanner(io.LimitReader(f, maxTable))
	lines.Buffer(nil, maxTable)
	read := 0
	for lines.Scan() {
		read += len(lines.Bytes()) + 1
		fields := strings.Split(lines.Text(), " ") // ID, parent, device, root, mount point, options, optional fields, "-"
		if len(fields) < 7 {
			return nil, fmt.Errorf("the list of mounts has the line %q", lines.Text())
		}
		where := unescape.Replace(fields[4])
		if !safefs.Within(where, real) {
			continue
		}
		rel := strings.TrimPrefix(strings.TrimPrefix(where, real), "/") // not cleaned, because of deletedSuffix
		out = append(out, point{cmp.Or(rel, "."), strings.HasPrefix(fields[6], "shared:")})
	}
	if read >= maxTable {
		return nil, errors.New("the list of mounts is too long")
	}
	return out, lines.Err()
}

// realPath returns the path of a directory without links.
func realPath(d *safefs.Dir) (string, error) {
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", d.FD()))
}

// unmountBelow unmounts what is at and below a path, the latest first. unmount unmounts one name of a directory.
func (m *Manager) unmountBelow(rel string, unmount func(d *safefs.Dir, name string) error) error {
	top, err := m.open()
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // a directory
	table, err := m.table(top)
	if err != nil {
		return err
	}
	for i := len(table) - 1; i >= 0; i-- {
		if !safefs.Within("/"+table[i].rel, "/"+rel) || strings.HasSuffix(table[i].rel, deletedSuffix) {
			continue
		}
		d, err := top.Sub(path.Dir(table[i].rel))
		if err != nil {
			return err
		}
		err = unmount(d, path.Base(table[i].rel))
		d.Close() //nolint:errcheck // a directory
		if err != nil {
			return err
		}
	}
	return nil
}

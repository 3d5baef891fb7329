package safefs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Protected returns an error if another user than root and the agent's can change an entry of a directory
// or of one above it.
func Protected(dir string) error {
	at := ""
	for _, part := range strings.Split(strings.TrimSuffix(dir, "/"), "/") {
		at = filepath.Join("/", at, part)
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return fmt.Errorf("the directory %s belongs to uid %d, which could replace it", at, st.Uid)
		}
		// In a directory with the sticky bit, others can add entries, but not replace those of root.
		if st.Mode&0o022 != 0 && st.Mode&unix.S_ISVTX == 0 {
			return fmt.Errorf("the directory %s has mode %04o: others could replace its entries", at, st.Mode&0o7777)
		}
	}
	return nil
}

package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// bootstrapReset is the file for another ACL bootstrap. An operator writes to it, as a decimal
// number, the index at which the first management token was created. Whoever can write to the
// server's directory has full access anyway. The file works only once, because the index
// changes.
const bootstrapReset = "acl-bootstrap-reset"

// resetIndex reads the file. It returns zero if there is none.
func (s *Server) resetIndex() (uint64, error) {
	if s.dir() == "" {
		return 0, nil
	}
	f, err := os.Open(filepath.Join(s.dir(), bootstrapReset))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		s.log.Warn("read the index of an ACL bootstrap", "err", err)
		return 0, fmt.Errorf("the file %s cannot be read: see the log of this server for the reason", bootstrapReset)
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		s.log.Warn("read the index of an ACL bootstrap", "err", err)
		return 0, fmt.Errorf("the file %s cannot be read: see the log of this server for the reason", bootstrapReset)
	}
	index, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the file %s does not contain a decimal index", bootstrapReset)
	}
	return index, nil
}

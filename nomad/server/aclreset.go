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

// bootstrapReset is the file in which an operator writes, as a decimal number, the index
// at which the first token was made, to make another: who can write there may do
// everything anyway. It counts once, since the index is another one then.
const bootstrapReset = "acl-bootstrap-reset"

// resetIndex reads that file; zero when there is none.
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
		return 0, fmt.Errorf("the file %s cannot be read: the log of this server says why", bootstrapReset)
	}
	defer f.Close() // only read from
	text, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		s.log.Warn("read the index of an ACL bootstrap", "err", err)
		return 0, fmt.Errorf("the file %s cannot be read: the log of this server says why", bootstrapReset)
	}
	index, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the file %s does not hold a decimal index", bootstrapReset)
	}
	return index, nil
}

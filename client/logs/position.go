package logs

import (
	"path"
	"strconv"
	"strings"
)

// Position is a place in a log: an offset in the rotated file with a number.
type Position struct {
	File   int
	Offset int64
}

// FileNumber returns the number of a file of a log, from the name in a frame.
func FileNumber(name string) (n int, ok bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(path.Ext(name), "."))
	return n, err == nil
}

// sinkPrefix begins the names of the files with the positions of log sinks.
const sinkPrefix = ".sink-"

// SinkPositionName returns the name of the file, in the allocation's directory, with the position of a
// log sink in a log. Such files are not listed.
func SinkPositionName(sink, kind, task string) string {
	return sinkPrefix + sink + "-" + kind + "-" + task
}

// seekTo sets the position, or the start of the next file if the file does not exist any more.
func (s *logStream) seekTo(pieces []piece, at Position) {
	last := pieces[len(pieces)-1]
	s.n, s.ino, s.offset = last.n, last.ino, last.size
	for _, p := range pieces {
		if p.n == at.File {
			s.n, s.ino, s.offset = p.n, p.ino, at.Offset
			return
		}
		if p.n > at.File {
			s.n, s.ino, s.offset = p.n, p.ino, 0
			return
		}
	}
}

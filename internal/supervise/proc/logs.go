package proc

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/safefs"
)

// Streams are the names of log pipes and, after a dot, of log files.
var Streams = [...]string{"stdout", "stderr"}

// LogIndex lists the log files of a task that the supervisor made, by stream, oldest first.
// Tasks can write to the directory of the log files, so what lies there proves nothing.
// The index is a JSON file in Logs.Root, where no task can write.
type LogIndex map[string][]LogFile

// LogFile is one file of a log: <name>.<stream>.<N>.
type LogFile struct {
	N   int
	Ino uint64 // of the file that the supervisor made
}

// LogIndexName is the name of the index of a task in Logs.Root.
func LogIndexName(task string) string { return ".logs-" + task }

// maxLogIndex bounds an index file: max_files entries for two streams.
const maxLogIndex = 16 << 20

// ReadLogIndex reads an index below an open directory. One that does not exist is
// unix.ENOENT.
func ReadLogIndex(root int, task string) (LogIndex, error) {
	name := LogIndexName(task)
	fd, err := safefs.OpenBeneath(root, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open log index %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("open log index %s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Size > maxLogIndex {
		return nil, fmt.Errorf("log index %s: not a file of the supervisor", name)
	}
	index := LogIndex{}
	if err := json.NewDecoder(f).Decode(&index); err != nil {
		return nil, fmt.Errorf("decode log index %s: %w", name, err)
	}
	return index, nil
}

// Is reports whether what was found under the file's name is the file.
func (f LogFile) Is(st *unix.Stat_t) bool { return st.Ino == f.Ino && OwnFile(st) }

// OwnFile reports whether a file is a regular one of this process's user.
func OwnFile(st *unix.Stat_t) bool {
	return st.Mode&unix.S_IFMT == unix.S_IFREG && int(st.Uid) == os.Geteuid()
}

// maxLogNumber bounds the numbers of log files that FindLogs takes.
const maxLogNumber = 1 << 30

// FindLogs finds the files of one stream, <prefix>.<N>, among the names in an open directory,
// oldest first. It goes by what lies there: regular files of this process's user with one link.
func FindLogs(dir int, names []string, prefix string) []LogFile {
	inodes := map[int]uint64{} // by number
	for _, name := range names {
		suffix, ok := strings.CutPrefix(name, prefix+".")
		n, err := strconv.Atoi(suffix)
		if !ok || err != nil || n < 0 || n >= maxLogNumber || strconv.Itoa(n) != suffix {
			continue
		}
		var st unix.Stat_t
		err = unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && OwnFile(&st) && st.Nlink == 1 {
			inodes[n] = st.Ino
		}
	}
	var out []LogFile
	for _, n := range slices.Sorted(maps.Keys(inodes)) {
		out = append(out, LogFile{N: n, Ino: inodes[n]})
	}
	return out
}

package logs_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/logs"
	"github.com/open-nomad/open-nomad/internal/supervise/proc"
)

// index writes the supervisor's index of existing files.
func index(t *testing.T, dir string, numbers ...int) {
	t.Helper()
	files := proc.LogIndex{}
	for _, n := range numbers {
		var st unix.Stat_t
		if err := unix.Lstat(logFile(dir, n), &st); err != nil {
			t.Fatal(err)
		}
		files["stdout"] = append(files["stdout"], proc.LogFile{N: n, Ino: st.Ino})
	}
	raw, err := json.Marshal(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, proc.LogIndexName("web")), raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func logFile(dir string, n int) string {
	return filepath.Join(dir, "alloc/logs/web.stdout."+strconv.Itoa(n))
}

func readLog(t *testing.T, tr *logs.Tree, r logs.Range) string {
	t.Helper()
	var out bytes.Buffer
	err := tr.StreamLog(t.Context(), logs.Log{Task: "web", Type: "stdout"}, r, logs.Output{Frame: logs.Plain, Sink: func(b []byte) error {
		_, err := out.Write(b)
		return err
	}})
	if err != nil {
		t.Errorf("StreamLog(%+v) = %v", r, err)
	}
	return out.String()
}

// Files that a task creates beside the log files, or in place of one, are not part of its log.
func TestPlantedLogFiles(t *testing.T) {
	dir, tr := tree(t)
	writeLogs(t, dir, map[int]string{3: "three|", 4: "four|", 5: "five|"})
	index(t, dir, 3, 4, 5)
	writeLogs(t, dir, map[int]string{2: "forged", 6: "forged", 900: "forged"})
	if err := os.Mkdir(logFile(dir, 7), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("web.stdout.3", logFile(dir, 8)); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]logs.Range{"three|four|five|": {}, "five|": {Origin: "end", Offset: 5}} {
		if got := readLog(t, tr, r); got != want {
			t.Errorf("%+v: %q, want %q", r, got, want)
		}
	}
	for _, n := range []int{4, 5} { // replace a file: in the middle, then the last
		if err := os.Rename(logFile(dir, n), logFile(dir, n)+".away"); err != nil {
			t.Fatal(err)
		}
		writeLogs(t, dir, map[int]string{n: "forged"})
	}
	if got := readLog(t, tr, logs.Range{}); got != "three|" {
		t.Errorf("with replaced files: %q, want the remaining ones", got)
	}
	files, err := tr.List("/")
	if err != nil || len(files) != 2 {
		t.Errorf("List(/) = %v, %v, want two directories and no index", files, err)
	}
}

// Without an index, as with an earlier version, the owner and the number of links decide.
func TestPlantedWithoutIndex(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: files of another user")
	}
	dir, tr := tree(t)
	writeLogs(t, dir, map[int]string{0: "zero|", 1: "forged", 2: "forged"})
	if err := os.Chown(logFile(dir, 1), 88001, 88001); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(logFile(dir, 2), filepath.Join(dir, "alloc/data/link")); err != nil {
		t.Fatal(err)
	}
	if got := readLog(t, tr, logs.Range{}); got != "zero|" {
		t.Errorf("log = %q, want the file that only the agent's user owns", got)
	}
}

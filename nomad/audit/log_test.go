package audit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testdisk"
)

// event returns a small event.
func event(name string) *Event {
	return &Event{Type: HTTP, Stage: Received, Request: Request{Operation: "GET", Endpoint: name}}
}

// open returns a log with the configuration c, in a new directory unless c has a path.
func open(t testing.TB, c Config) (*Log, string) {
	t.Helper()
	if c.Path == "" {
		c.Path = filepath.Join(t.TempDir(), "audit", "audit.log")
	}
	if c.Mode == 0 {
		c.Mode = 0o600
	}
	l := New(Node{Name: "n"}, slog.New(slog.DiscardHandler))
	if err := l.Set(&c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, c.Path
}

// endpoints returns the endpoints in the lines of a file. Every line must be complete.
func endpoints(t *testing.T, path string) (out []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, "\n") {
			t.Errorf("the last line is incomplete: %q", line)
			continue
		}
		out = append(out, at(decode(t, line), "payload", "request", "endpoint").(string))
	}
	return out
}

// old returns the rotated files, oldest first.
func old(t *testing.T, path string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "audit-*.log"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func record(t *testing.T, l *Log, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := l.Record(event(name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOffAndNil(t *testing.T) {
	var none *Log
	off := New(Node{}, slog.New(slog.DiscardHandler))
	for _, l := range []*Log{none, off} {
		if l.Enabled() || l.Enforced() || l.Record(event("a")) != nil || l.Close() != nil {
			t.Errorf("%p keeps an event", l)
		}
	}
}

func TestFilesModes(t *testing.T) {
	l, path := open(t, Config{OwnDir: true})
	record(t, l, "a")
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	// Modes that are too permissive are corrected at the next start.
	l.Close()
	if err := errors.Join(os.Chmod(path, 0o666), os.Chmod(filepath.Dir(path), 0o777)); err != nil {
		t.Fatal(err)
	}
	l, _ = open(t, Config{Path: path, OwnDir: true, Mode: 0o640})
	record(t, l, "b")
	for name, want := range map[string]os.FileMode{path: 0o640, filepath.Dir(path): os.ModeDir | 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if got := endpoints(t, path); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the log has %v", got)
	}
}

func TestRefusedPlaces(t *testing.T) {
	dir := t.TempDir()
	var cases = map[string]struct {
		path string
		make func(path string) error
		want string
	}{
		"file is a link": {"a/audit.log", func(p string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p+".x", nil, 0o600), os.Symlink(p+".x", p))
		}, "link"},
		"directory is a link": {"b/audit.log", func(p string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p)+".x", 0o700), os.Symlink(filepath.Dir(p)+".x", filepath.Dir(p)))
		}, "link"},
		"file is a pipe": {"c/audit.log", func(p string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), syscall.Mkfifo(p, 0o600))
		}, "not a regular file"},
		"file is a directory": {"d/audit.log", func(p string) error { return os.MkdirAll(p, 0o700) }, "directory"},
		"others may write the directory": {"e/audit.log", func(p string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.Chmod(filepath.Dir(p), 0o777))
		}, "is writable by others"},
		"second name": {"f/audit.log", func(p string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o600), os.Link(p, p+".x"))
		}, "second name"},
		"file of another user": {"g/audit.log", func(p string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o600), chown(p))
		}, "belongs to user"},
		"directory of another user": {"h/audit.log", func(p string) error {
			return errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), chown(filepath.Dir(p)))
		}, "belongs to user"},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, tt.path)
			switch err := tt.make(path); {
			case errors.Is(err, errNotRoot):
				t.Skip(err)
			case err != nil:
				t.Fatal(err)
			}
			err := New(Node{}, slog.New(slog.DiscardHandler)).Set(&Config{Path: path, Mode: 0o600})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Set() = %v, want %q", err, tt.want)
			}
		})
	}
}

var errNotRoot = errors.New("only root gives files away")

func chown(path string) error {
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	return os.Chown(path, 65534, 65534)
}

// Two agents cannot rotate the same file.
func TestOneWriter(t *testing.T) {
	l, path := open(t, Config{})
	other := New(Node{}, slog.New(slog.DiscardHandler))
	if err := other.Set(&Config{Path: path, Mode: 0o600}); err == nil || !strings.Contains(err.Error(), "in use by another agent") {
		t.Errorf("a second Set() = %v", err)
	}
	l.Close()
	if err := other.Set(&Config{Path: path, Mode: 0o600}); err != nil {
		t.Error(err)
	}
	other.Close()
}

func TestRotateBySize(t *testing.T) {
	one := len(event("a0").line(nil, time.Now(), Node{Name: "n"}.line()))
	l, path := open(t, Config{RotateBytes: int64(3 * (one + 60)), Keep: 2})
	var all []string
	for i := range 30 {
		all = append(all, fmt.Sprintf("a%d", i%10))
		record(t, l, all[i])
	}
	names := old(t, path)
	if len(names) != 2 {
		t.Errorf("%d old files are kept, want 2: %v", len(names), names)
	}
	var kept []string
	for _, name := range append(names, path) {
		part := endpoints(t, name)
		if info, err := os.Stat(name); err != nil || info.Size() > int64(3*(one+60)) || len(part) == 0 || info.Mode() != 0o600 {
			t.Errorf("%s: %v of %d lines, %v", name, info.Size(), len(part), err)
		}
		kept = append(kept, part...)
	}
	if !slices.Equal(kept, all[len(all)-len(kept):]) {
		t.Errorf("the files have %v", kept)
	}
}

func TestRotateByAge(t *testing.T) {
	l, path := open(t, Config{RotateEvery: time.Hour})
	record(t, l, "a", "b")
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	l.now = now
	later.Store(int64(59 * time.Minute))
	record(t, l, "c")
	later.Store(int64(61 * time.Minute))
	record(t, l, "d", "e")
	names := old(t, path)
	if len(names) != 1 || !slices.Equal(endpoints(t, names[0]), []string{"a", "b", "c"}) ||
		!slices.Equal(endpoints(t, path), []string{"d", "e"}) {
		t.Errorf("the files are %v: %v", names, endpoints(t, path))
	}
	// A restart does not reset the age of a file.
	l.Close()
	l = New(Node{}, slog.New(slog.DiscardHandler))
	l.now = now
	if err := l.Set(&Config{Path: path, Mode: 0o600, RotateEvery: time.Hour}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	later.Store(int64(123 * time.Minute))
	record(t, l, "f")
	if got := endpoints(t, path); !slices.Equal(got, []string{"f"}) {
		t.Errorf("after a restart the old file is still used: %v", got)
	}
}

// Concurrent writes, rotations and reloads lose no line and split none.
func TestConcurrently(t *testing.T) {
	l, path := open(t, Config{RotateBytes: 4 << 10})
	cfg := *l.cur.Load()
	const writers, each = 8, 100
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := l.Record(event(fmt.Sprintf("%d-%d", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 50 {
			next := cfg.Config
			if i%2 == 1 {
				next.Path = strings.TrimSuffix(path, "audit.log") + "audit-b.log"
			}
			if err := l.Set(&next); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	seen := map[string]int{}
	for _, name := range append(old(t, path), path) {
		for _, e := range endpoints(t, name) {
			seen[e]++
		}
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s is present %d times", name, n)
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d events are present, want %d", len(seen), writers*each)
	}
}

// An external program renames the file and reloads the agent.
func TestReopen(t *testing.T) {
	l, path := open(t, Config{})
	record(t, l, "a")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	record(t, l, "b") // the old file is used until the reload
	cfg := l.cur.Load().Config
	if err := l.Set(&cfg); err != nil {
		t.Fatal(err)
	}
	record(t, l, "c")
	if got := endpoints(t, path+".1"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the renamed file has %v", got)
	}
	if got := endpoints(t, path); !slices.Equal(got, []string{"c"}) {
		t.Errorf("the new file has %v", got)
	}
	// A reload without a renamed file continues with the new filters.
	cfg.Filters = []Filter{{Type: "HTTPEvent", Endpoints: []string{"d"}}}
	if err := l.Set(&cfg); err != nil {
		t.Fatal(err)
	}
	record(t, l, "d", "e")
	if got := endpoints(t, path); !slices.Equal(got, []string{"c", "e"}) {
		t.Errorf("the file has %v", got)
	}
	// A file that cannot be opened changes nothing.
	moved := filepath.Dir(path) + ".moved"
	if err := errors.Join(os.Rename(filepath.Dir(path), moved), os.Symlink("/tmp", filepath.Dir(path))); err != nil {
		t.Fatal(err)
	}
	if err := l.Set(&cfg); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("Set() = %v", err)
	}
	record(t, l, "f")
	if got := endpoints(t, filepath.Join(moved, "audit.log")); !slices.Equal(got, []string{"c", "e", "f"}) {
		t.Errorf("the file has %v", got)
	}
}

// A failed rotation does not stop the log.
func TestRotationFails(t *testing.T) {
	l, path := open(t, Config{RotateBytes: 1})
	record(t, l, "a")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	record(t, l, "b", "c")
	if got := endpoints(t, path+".1"); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the file has %v", got)
	}
}

// A process died while writing a line: the next line begins on its own.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"created`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, Config{Path: path})
	record(t, l, "a", "b")
	b, err := os.ReadFile(path)
	if lines := strings.Split(string(b), "\n"); err != nil || len(lines) != 4 || lines[0] != `{"created` ||
		at(decode(t, lines[1]), "payload", "request", "endpoint") != "a" {
		t.Errorf("%v: %q", err, b)
	}
}

// Many concurrent events, as from a large plan, are all written in order.
func TestManyAtOnce(t *testing.T) {
	l, path := open(t, Config{Filters: []Filter{{Type: "HTTPEvent", Endpoints: []string{"x*"}}}})
	var events []*Event
	var want []string
	for i := range 1000 {
		name := fmt.Sprint(i)
		if i%3 == 0 || i == 999 {
			events = append(events, event("x"+name))
			continue
		}
		events, want = append(events, event(name)), append(want, name)
	}
	if err := l.Record(events...); err != nil {
		t.Fatal(err)
	}
	if got := endpoints(t, path); !slices.Equal(got, want) {
		t.Errorf("%d events are present, want %d", len(got), len(want))
	}
}

// On a full disk, no line is torn, callers get the errors of the configured guarantee, and
// logging works again when there is space.
func TestFullDisk(t *testing.T) {
	dir := testdisk.New(t, "64k", false).Dir
	var said bytes.Buffer
	path := filepath.Join(dir, "audit.log")
	l := New(Node{Name: "n"}, slog.New(slog.NewTextHandler(&said, nil)))
	if err := l.Set(&Config{Path: path, Mode: 0o600, Enforced: true}); err != nil {
		t.Fatal(err)
	}
	n := 0
	for err := error(nil); err == nil && n < 1000; n++ {
		if err = l.Record(event("a")); err != nil && !errors.Is(err, ErrRefused) {
			t.Fatalf("Record() = %v", err)
		}
	}
	complete := event("b")
	complete.Stage = Complete
	if err := l.Record(complete); !errors.Is(err, ErrUnrecorded) {
		t.Errorf("Record() of the result = %v", err)
	}
	if got := endpoints(t, path); len(got) != n-1 || n < 50 || n == 1000 {
		t.Errorf("%d of %d lines are present", len(got), n-1)
	}
	if c := strings.Count(said.String(), "could not be written"); c != 1 {
		t.Errorf("the full disk was logged %d times:\n%s", c, &said)
	}
	// best-effort continues.
	if err := l.Set(&Config{Path: path, Mode: 0o600}); err != nil {
		t.Fatal(err)
	}
	if err := l.Record(event("c")); err != nil {
		t.Errorf("best-effort: Record() = %v", err)
	}
	// There is space again: the next line is complete and on its own.
	if err := errors.Join(os.Rename(path, path+".1"), l.Set(&Config{Path: path, Mode: 0o600, Enforced: true})); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path+".1", 0); err != nil {
		t.Fatal(err)
	}
	record(t, l, "d")
	if got := endpoints(t, path); !slices.Equal(got, []string{"d"}) {
		t.Errorf("the file has %v", got)
	}
	l.Close()
}

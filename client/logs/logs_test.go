package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/client/logs"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// tree creates an allocation with one task, and a file outside of it.
func tree(t *testing.T) (dir string, tr *logs.Tree) {
	t.Helper()
	parent := t.TempDir()
	dir = filepath.Join(parent, "alloc-id")
	for _, d := range []string{"alloc/logs", "alloc/data", "alloc/secrets", "web/local/secrets", "web/secrets", "web/private"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"../canary": "outside", "web/secrets/nomad_token": "token", "web/private/x": "private",
		"web/local/a.txt": "hello", "web/local/secrets/b": "mine", "alloc/secrets/c": "shared", "alloc/data/page": "<html>",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := logs.OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return dir, tr
}

// code returns the HTTP status of an error, 0 for nil, 500 for any other.
func code(err error) int {
	var coded *apierror.Coded
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.Code
	}
	return 500
}

// read streams a file and returns its content.
func read(tr *logs.Tree, path string, r logs.Range) (string, error) {
	var out bytes.Buffer
	err := tr.StreamFile(context.Background(), path, r, logs.Output{Frame: logs.Plain, Sink: func(b []byte) error {
		_, err := out.Write(b)
		return err
	}})
	return out.String(), err
}

// Names that leave the allocation, use a link or lead to secrets give 403 or 404 for every
// operation. A similar valid name works.
func TestHostileNames(t *testing.T) {
	dir, tr := tree(t)
	for name, target := range map[string]string{
		"web/local/out": "../../../canary", "web/local/abs": "/etc/passwd", "web/local/in": "../secrets/nomad_token",
		"web/local/dir": "../secrets", "alloc/logs/web.stdout.0": "../../web/secrets/nomad_token", "web/local/self": "/proc/self/environ",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"..", "../canary", "/../canary", "../../../../../../../etc/passwd", "web/../../canary", "web/local/../../../canary",
		"web/local/out", "web/local/abs", "web/local/in", "web/local/dir/nomad_token", "web/local/self", "alloc/logs/web.stdout.0",
		"web/secrets/nomad_token", "/web/secrets/nomad_token", "web//secrets/nomad_token", "web/./secrets/nomad_token",
		"web/local/../secrets/nomad_token", "web/SECRETS/nomad_token", "web/Secrets/nomad_token", "web/\u017fecrets/nomad_token",
		"web/ｓｅｃｒｅｔｓ/nomad_token", "web/se\u200dcrets/nomad_token", "web/secrets /nomad_token", "web/private/x", "web/PRIVATE/x",
		"alloc/../web/secrets/nomad_token", "web/local/a\x00.txt",
	} {
		text, err := read(tr, name, logs.Range{})
		if c := code(err); c != http.StatusForbidden && c != http.StatusNotFound && c != http.StatusBadRequest || text != "" {
			t.Errorf("stream %q = %q, %v (status %d)", name, text, err, c)
		}
		if f, err := tr.Open(name); err == nil {
			t.Errorf("open %q worked", name)
			f.Close()
		}
		if err != nil && strings.Contains(err.Error(), dir) {
			t.Errorf("the error of %q contains the host's path: %v", name, err)
		}
	}
	for _, name := range []string{"web/secrets", "web/private", "web/SECRETS", "..", "web/local/dir"} {
		if files, err := tr.List(name); code(err) != http.StatusForbidden && code(err) != http.StatusNotFound {
			t.Errorf("list %q = %v, %v", name, files, err)
		}
	}
	for name, want := range map[string]string{
		"web/local/a.txt": "hello", "/web/local/a.txt": "hello", "web/secrets/../local/a.txt": "hello",
		"web/local/secrets/b": "mine", "alloc/secrets/c": "shared",
	} {
		if got, err := read(tr, name, logs.Range{}); got != want || err != nil {
			t.Errorf("stream %q = %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestList(t *testing.T) {
	_, tr := tree(t)
	for path, want := range map[string]string{
		"/": "alloc web", "": "alloc web", "web": "local", "/web/": "local", "web/local": "a.txt secrets", "alloc": "data logs secrets",
	} {
		files, err := tr.List(path)
		var names []string
		for _, f := range files {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("List(%q) = %q, %v, want %q", path, got, err, want)
		}
	}
	if _, err := tr.List("nope"); code(err) != http.StatusNotFound {
		t.Errorf("List of a missing directory = %v", err)
	}
}

func TestStat(t *testing.T) {
	dir, tr := tree(t)
	info, err := tr.Stat("/web/local/a.txt")
	if err != nil || info.Name != "a.txt" || info.Size != 5 || info.IsDir || !strings.HasPrefix(info.ContentType, "text/plain") {
		t.Errorf("Stat() = %+v, %v", info, err)
	}
	if info, err := tr.Stat("alloc/data/page"); err != nil || !strings.HasPrefix(info.ContentType, "text/html") {
		t.Errorf("Stat() = %+v, %v", info, err)
	}
	if info, err := tr.Stat("/"); err != nil || !info.IsDir {
		t.Errorf("Stat(/) = %+v, %v", info, err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "alloc/link")); err != nil {
		t.Fatal(err)
	}
	if info, err := tr.Stat("alloc/link"); err != nil || info.FileMode[0] != 'L' || info.Size > 100 {
		t.Errorf("Stat of a link = %+v, %v, want the link itself", info, err)
	}
}

// A FIFO or a device is refused at once and not opened.
func TestSpecialFilesAreNotOpened(t *testing.T) {
	dir, tr := tree(t)
	fifo := filepath.Join(dir, "web/local/fifo")
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web/local/fifo", "web/local"} {
		if _, err := read(tr, name, logs.Range{}); code(err) != http.StatusBadRequest {
			t.Errorf("stream %q = %v, want 400", name, err)
		}
	}
	// ENXIO: the FIFO never had a reader.
	if fd, err := syscall.Open(fifo, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err != syscall.ENXIO {
		t.Errorf("open fifo for writing = %d, %v, want ENXIO", fd, err)
	}
}

func TestRanges(t *testing.T) {
	dir, tr := tree(t)
	big := strings.Repeat("0123456789", 20_000)
	if err := os.WriteFile(filepath.Join(dir, "alloc/data/big"), []byte(big), 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		r    logs.Range
		want string
		code int
	}{
		{logs.Range{}, big, 0},
		{logs.Range{Origin: "start", Offset: 5}, big[5:], 0},
		{logs.Range{Offset: 5, Limit: 10}, big[5:15], 0},
		{logs.Range{Limit: 100_000}, big[:100_000], 0},
		{logs.Range{Origin: "end", Offset: 12}, big[len(big)-12:], 0},
		{logs.Range{Origin: "end", Offset: 1 << 40}, big, 0},
		{logs.Range{Offset: 1 << 40}, "", 0},
		{logs.Range{Origin: "middle"}, "", 400},
		{logs.Range{Offset: -1}, "", 400},
	}
	for _, c := range cases {
		got, err := read(tr, "alloc/data/big", c.r)
		if got != c.want || code(err) != c.code {
			t.Errorf("%+v: %d bytes, %v, want %d bytes, status %d", c.r, len(got), err, len(c.want), c.code)
		}
	}
}

// JSON frames are concatenated objects of at most 64 KiB of data, with offsets.
func TestFrames(t *testing.T) {
	dir, tr := tree(t)
	big := strings.Repeat("x", 150_000)
	if err := os.WriteFile(filepath.Join(dir, "alloc/data/big"), []byte(big), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := tr.StreamFile(context.Background(), "alloc/data/big", logs.Range{}, logs.Output{Frame: logs.JSON, Sink: func(b []byte) error {
		_, err := out.Write(b)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for dec := json.NewDecoder(&out); ; {
		var f struct {
			Offset          int64
			Data            []byte
			File, FileEvent string
		}
		if err := dec.Decode(&f); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if f.Offset != int64(len(data)+len(f.Data)) || len(f.Data) > 64<<10 || f.File != "alloc/data/big" {
			t.Errorf("frame at %d: offset %d, %d bytes, file %q", len(data), f.Offset, len(f.Data), f.File)
		}
		data = append(data, f.Data...)
	}
	if string(data) != big {
		t.Errorf("got %d bytes, want %d", len(data), len(big))
	}
	if b, err := logs.JSON(message.StreamFrame{}); string(b) != "{}" || err != nil {
		t.Errorf("heartbeat = %s, %v", b, err)
	}
}

// writeLogs creates the files of a rotated log.
func writeLogs(t *testing.T, dir string, pieces map[int]string) {
	t.Helper()
	for n, text := range pieces {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("alloc/logs/web.stdout.%d", n)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRotatedLog(t *testing.T) {
	dir, tr := tree(t)
	writeLogs(t, dir, map[int]string{3: "three|", 9: "nine|", 10: "ten|"}) // 10 after 9: numbers, not words
	if err := os.WriteFile(filepath.Join(dir, "alloc/logs/web.stdout.x"), []byte("no"), 0o644); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		r    logs.Range
		want string
	}{
		{logs.Range{}, "three|nine|ten|"},
		{logs.Range{Offset: 2}, "ree|nine|ten|"},
		{logs.Range{Offset: 6}, "nine|ten|"},
		{logs.Range{Offset: 8}, "ne|ten|"},
		{logs.Range{Origin: "end", Offset: 6}, "e|ten|"},
		{logs.Range{Origin: "end", Offset: 4}, "ten|"},
		{logs.Range{Origin: "end"}, "ten|"},
	}
	for _, c := range cases {
		var out bytes.Buffer
		err := tr.StreamLog(context.Background(), logs.Log{Task: "web", Type: "stdout"}, c.r, logs.Output{Frame: logs.Plain, Sink: func(b []byte) error {
			_, err := out.Write(b)
			return err
		}})
		if out.String() != c.want || err != nil {
			t.Errorf("%+v: %q, %v, want %q", c.r, out.String(), err, c.want)
		}
	}
	for _, l := range []logs.Log{{"web", "stdin"}, {"", "stdout"}, {"../web", "stdout"}} {
		if err := tr.StreamLog(context.Background(), l, logs.Range{}, logs.Output{Frame: logs.Plain}); code(err) != http.StatusBadRequest {
			t.Errorf("%+v: %v, want 400", l, err)
		}
	}
	if err := tr.StreamLog(context.Background(), logs.Log{Task: "db", Type: "stdout"}, logs.Range{}, logs.Output{Frame: logs.Plain}); err != nil {
		t.Errorf("log of a task that wrote nothing: %v", err)
	}
}

// follow starts a stream and returns its output, piece by piece.
func follow(t *testing.T, run func(ctx context.Context, frame logs.Framer, sink logs.Sink) error) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan string, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, logs.Plain, func(b []byte) error { got <- string(b); return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("stream ended with %v", err)
		}
	})
	return func() string {
		select {
		case s := <-got:
			return s
		case <-time.After(2 * time.Minute):
			t.Fatal("no output")
			return ""
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// A followed log continues after a rotation, without losing the end of the old file, and starts
// before the task has written anything.
func TestFollowLog(t *testing.T) {
	dir, tr := tree(t)
	path := func(n int) string { return filepath.Join(dir, fmt.Sprintf("alloc/logs/web.stdout.%d", n)) }
	next := follow(t, func(ctx context.Context, frame logs.Framer, sink logs.Sink) error {
		return tr.StreamLog(ctx, logs.Log{Task: "web", Type: "stdout"}, logs.Range{Follow: true}, logs.Output{Frame: frame, Sink: sink})
	})
	appendTo(t, path(0), "one")
	if got := next(); got != "one" {
		t.Fatalf("got %q", got)
	}
	appendTo(t, path(0), "two")
	if got := next(); got != "two" {
		t.Fatalf("got %q", got)
	}
	appendTo(t, path(0), "last")
	appendTo(t, path(1), "new")
	var all string
	for all != "lastnew" {
		if all += next(); len(all) > 7 {
			t.Fatalf("got %q", all)
		}
	}
}

// A followed log ends when its task has ended and all data was sent, also if the task never
// wrote anything.
func TestFollowEndedLog(t *testing.T) {
	for name, text := range map[string]string{"output": "last", "no output": ""} {
		t.Run(name, func(t *testing.T) {
			dir, tr := tree(t)
			path := filepath.Join(dir, "alloc/logs/web.stdout.0")
			if text != "" {
				appendTo(t, path, "first")
			}
			looks := 0
			over := func() bool { // data written before the end is reported is sent
				if looks++; looks == 2 && text != "" {
					appendTo(t, path, text)
				}
				return looks >= 2
			}
			var out bytes.Buffer
			err := tr.StreamLog(t.Context(), logs.Log{Task: "web", Type: "stdout"}, logs.Range{Follow: true, Over: over},
				logs.Output{Frame: logs.Plain, Sink: func(b []byte) error { out.Write(b); return nil }})
			if want := strings.Repeat("first"+text, min(1, len(text))); err != nil || out.String() != want {
				t.Errorf("StreamLog() = %q, %v, want %q", out.String(), err, want)
			}
		})
	}
}

func TestFollowFileTruncatedAndDeleted(t *testing.T) {
	dir, tr := tree(t)
	path := filepath.Join(dir, "web/local/a.txt")
	frames := make(chan message.StreamFrame, 100)
	ended := make(chan error, 1)
	go func() {
		frame := func(f message.StreamFrame) ([]byte, error) {
			if f.FileEvent != "" || len(f.Data) > 0 {
				f.Data = bytes.Clone(f.Data)
				frames <- f
			}
			return nil, nil
		}
		ended <- tr.StreamFile(context.Background(), "web/local/a.txt", logs.Range{Follow: true}, logs.Output{Frame: frame})
	}()
	take := func() message.StreamFrame {
		t.Helper()
		select {
		case f := <-frames:
			return f
		case <-time.After(2 * time.Minute):
			t.Fatal("no output")
			return message.StreamFrame{}
		}
	}
	if f := take(); string(f.Data) != "hello" {
		t.Fatalf("first %+v", f)
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if f := take(); f.FileEvent != "file truncated" {
		t.Fatalf("after truncation %+v", f)
	}
	appendTo(t, path, "again")
	if f := take(); string(f.Data) != "again" || f.Offset != 5 {
		t.Fatalf("after truncation %+v", f)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if f := take(); f.FileEvent != "file deleted" {
		t.Fatalf("after deletion %+v", f)
	}
	if err := <-ended; err != nil {
		t.Errorf("StreamFile() = %v", err)
	}
}

// A followed stream without data sends heartbeats.
func TestHeartbeat(t *testing.T) {
	_, tr := tree(t)
	beats := make(chan string, 10)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- tr.StreamFile(ctx, "web/local/a.txt", logs.Range{Origin: "end", Follow: true},
			logs.Output{Frame: logs.JSON, Sink: func(b []byte) error { beats <- string(b); return nil }})
	}()
	select {
	case b := <-beats:
		if b != "{}" {
			t.Errorf("heartbeat = %q", b)
		}
	case <-time.After(2 * time.Minute):
		t.Error("no heartbeat")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("StreamFile() = %v", err)
	}
}

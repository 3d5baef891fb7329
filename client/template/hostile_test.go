package template_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/template"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

var longAgo = time.Unix(1, 0)

const canary = "not to be touched"

// outside is a directory that no template may change.
type outside struct {
	t    *testing.T
	path string
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t, t.TempDir()}
	for _, name := range []string{"out", "victim"} {
		if err := os.WriteFile(filepath.Join(o.path, name), []byte(canary), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// check fails the test if anything in the directory has changed.
func (o *outside) check() {
	o.t.Helper()
	entries, err := os.ReadDir(o.path)
	if err != nil || len(entries) != 2 {
		o.t.Errorf("outside: %v, %v, want the two files", entries, err)
	}
	for _, name := range []string{"out", "victim"} {
		text, err := os.ReadFile(filepath.Join(o.path, name))
		info, serr := os.Stat(filepath.Join(o.path, name))
		if err != nil || serr != nil || string(text) != canary || info.Mode() != 0o600 {
			o.t.Errorf("outside: %s has %q, %v, %v", name, text, info, errors.Join(err, serr))
		}
	}
}

const swaps = 50_000

// swap exchanges two names until enough exchanges were made and done returns true.
func swap(t *testing.T, dir, a, b string, done func() bool) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for n := 0; n < swaps || !done(); n++ {
		if err := unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE); err != nil && !errors.Is(err, unix.ENOENT) {
			t.Errorf("swap: %v", err)
			return
		}
	}
}

// A task swaps the destination, or its directory, against a link while the client writes. No write goes through
// the link.
func TestSwappedDestination(t *testing.T) {
	testpace.Slow(t, "renders many times while a file is exchanged")
	for name, dest := range map[string]string{"file": "local/d/out", "directory": "local/d/out"} {
		t.Run(name, func(t *testing.T) {
			w, o := newWorld(t), newOutside(t)
			w.runs(text(dest, "first"))
			at, file, link := "local", "d", o.path
			if name == "file" {
				at, file, link = "local/d", "out", filepath.Join(o.path, "victim")
			}
			if err := os.Symlink(link, filepath.Join(w.dir.Path(), at, "link")); err != nil {
				t.Fatal(err)
			}
			var writes, refused atomic.Int64
			var work sync.WaitGroup
			stop := make(chan struct{})
			work.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := w.all.Write(0, fmt.Sprint(i)); err != nil {
						refused.Add(1)
					}
					writes.Add(1)
				}
			})
			swap(t, filepath.Join(w.dir.Path(), at), file, "link", func() bool { return writes.Load() >= 1000 })
			close(stop)
			work.Wait()
			o.check()
			t.Logf("%d swaps, %d writes, %d refused", swaps, writes.Load(), refused.Load())
			if name == "file" && refused.Load() > 0 {
				t.Errorf("%d writes were refused, want the link replaced", refused.Load())
			}
		})
	}
}

// The same, with renders by the program.
func TestSwappedWhileRendering(t *testing.T) {
	w, o := newWorld(t), newOutside(t)
	w.put("local/in", "first")
	w.runs(text("local/d/out", `{{ file "local/in" }}`))
	if err := os.Symlink(o.path, filepath.Join(w.dir.Path(), "local/link")); err != nil {
		t.Fatal(err)
	}
	var renders atomic.Int64
	var work sync.WaitGroup
	stop := make(chan struct{})
	work.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			w.put("local/in", fmt.Sprint(i))
			_, _ = w.all.RenderAgain(t.Context()) // refused, or not, by chance
			renders.Add(1)
		}
	})
	swap(t, filepath.Join(w.dir.Path(), "local"), "d", "link", func() bool { return renders.Load() >= 10 })
	close(stop)
	work.Wait()
	o.check()
}

// What a task puts at the destination is replaced or refused, and never followed.
func TestObstacles(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(w *world, o *outside) error
		want string // of the event; "" for a replaced obstacle
	}{
		"link to a file": {func(w *world, o *outside) error { return os.Symlink(o.path+"/victim", w.dir.Path()+"/local/d/out") }, ""},
		"dangling link":  {func(w *world, o *outside) error { return os.Symlink(o.path+"/new", w.dir.Path()+"/local/d/out") }, ""},
		"hard link":      {func(w *world, o *outside) error { return os.Link(o.path+"/victim", w.dir.Path()+"/local/d/out") }, ""},
		"FIFO":           {func(w *world, _ *outside) error { return syscall.Mkfifo(w.dir.Path()+"/local/d/out", 0o666) }, ""},
		"directory":      {func(w *world, _ *outside) error { return os.Mkdir(w.dir.Path()+"/local/d/out", 0o777) }, "write the file"},
		"link as the directory": {func(w *world, o *outside) error {
			return errors.Join(os.Remove(w.dir.Path()+"/local/d"), os.Symlink(o.path, w.dir.Path()+"/local/d"))
		}, "not a directory"},
		"file as the directory": {func(w *world, _ *outside) error {
			return errors.Join(os.Remove(w.dir.Path()+"/local/d"), os.WriteFile(w.dir.Path()+"/local/d", nil, 0o666))
		}, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := newWorld(t), newOutside(t)
			w.vars.Set("a", map[string]string{"x": "1"})
			w.runs(mode(variable("local/d/out", "a", "x"), "restart", ""))
			if err := os.Remove(w.dir.Path() + "/local/d/out"); err != nil {
				t.Fatal(err)
			}
			if err := c.put(w, o); err != nil {
				t.Skip("cannot put the obstacle: ", err)
			}
			w.vars.Set("a", map[string]string{"x": "2"})
			if c.want == "" {
				w.until("it is replaced", func() bool { return w.file("local/d/out") == "2" })
			} else {
				w.until("it is reported", func() bool { return count(w.task.messages(nomad.TaskTemplate), c.want) == 1 })
			}
			o.check()
			if len(w.task.killed()) > 0 {
				t.Errorf("kills %q", w.task.killed())
			}
		})
	}
}

// A program that does not follow the protocol is ended, and writes nothing that it must not.
func TestHostileProgram(t *testing.T) {
	frame := func(kind byte, size int, body string) string {
		return string(binary.BigEndian.AppendUint32([]byte{kind}, uint32(size))) + body
	}
	content := func(index uint32, text string) string {
		return frame(1, len(text)+4, string(binary.BigEndian.AppendUint32(nil, index))+text)
	}
	for name, out := range map[string]string{
		"another template": content(7, "x"), "largest index": content(1<<32-1, "x"), "twice": content(0, "x") + content(0, "y"),
		"too large": frame(1, render.MaxContent+5, "x"), "large message": frame(3, 1<<30, "x"), "unknown": frame(200, 0, ""),
		"cut": frame(1, 1000, "\x00\x00\x00\x00short"), "text": "panic: runtime error\n", "not JSON": frame(2, 1, "x"), "nothing": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.start(text("local/a", "a"))
			s.Confine = func() (*template.Confinement, error) {
				return &template.Confinement{By: "the test", Run: func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
					_, err := s.Stdio[1].WriteString(out)
					return &drivers.ExitResult{}, err
				}}, nil
			}
			_, err := w.begin(s)
			if err == nil || !strings.Contains(err.Error(), "the program") {
				t.Errorf("Begin() = %v, want an error", err)
			}
		})
	}
}

// A program that sends without end costs the agent neither memory nor much of its time.
func TestFloodingProgram(t *testing.T) {
	w := newWorld(t)
	s := w.start(text("local/a", "a"))
	var passes atomic.Int64
	pass := `{"Complete":true}`
	flood := content16MiB() + string(binary.BigEndian.AppendUint32([]byte{byte(render.KindPass)}, uint32(len(pass)))) + pass
	s.Confine = func() (*template.Confinement, error) {
		return &template.Confinement{By: "the test", Run: func(ctx context.Context, s *drivers.Sidecar) (*drivers.ExitResult, error) {
			defer context.AfterFunc(ctx, func() { s.Stdio[1].SetWriteDeadline(longAgo) })() //nolint:errcheck // a pipe has deadlines
			for ctx.Err() == nil && passes.Load() < 20 {
				if _, err := s.Stdio[1].WriteString(flood); err != nil {
					break
				}
				passes.Add(1)
			}
			<-ctx.Done()
			return &drivers.ExitResult{}, nil
		}}, nil
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w.mustBegin(s)
	w.all.Started(nil)
	w.until("20 times 16 MiB are handled", func() bool { return passes.Load() == 20 })
	runtime.ReadMemStats(&after)
	if grown := (int64(after.TotalAlloc) - int64(before.TotalAlloc)) >> 20; grown > 32 {
		t.Errorf("the agent allocated %d MiB, want at most 32", grown)
	}
}

func content16MiB() string {
	head := binary.BigEndian.AppendUint32([]byte{byte(render.KindContent)}, render.MaxContent+4)
	return string(binary.BigEndian.AppendUint32(head, 0)) + strings.Repeat("x", render.MaxContent)
}

package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/client/migrate"
)

// fill creates files of all kinds in an allocation's directory.
func fill(t *testing.T, d disk) {
	t.Helper()
	d.write("alloc/data/a", "first")
	d.write("alloc/data/deep/er/b", strings.Repeat("0123456789abcdef", 40_000))
	d.write("t/local/own", "own")
	d.write("t/local/"+strings.Repeat("n", 200)+"/"+strings.Repeat("m", 200), "long name")
	d.write("t/secrets/key", "secret")
	d.write("alloc/logs/t.stdout.0", "log")
	d.write("alloc/data/tool", "#!/bin/sh")
	d.write("alloc/data/closed/x", "x")
	day := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, err := range []error{
		os.Symlink("../data/a", filepath.Join(d.path, "alloc/data/link")),
		os.Symlink("../../alloc/data/a", filepath.Join(d.path, "t/local/up")),
		os.Mkdir(filepath.Join(d.path, "alloc/data/none"), 0o700),
		os.Chmod(filepath.Join(d.path, "alloc/data/tool"), os.ModeSetuid|0o755),
		os.Chmod(filepath.Join(d.path, "alloc/data/closed"), 0o500),
		os.Chtimes(filepath.Join(d.path, "alloc/data/a"), day, day),
		syscall.Mkfifo(filepath.Join(d.path, "alloc/data/pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(d.path, "alloc/data/sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("end"), 60<<20); err != nil {
		t.Fatal(err)
	}
}

// filled checks the files of fill. Secrets, logs and FIFOs do not follow.
func filled(t *testing.T, d disk) {
	t.Helper()
	d.has("alloc/data/a", "first")
	d.has("alloc/data/deep/er/b", strings.Repeat("0123456789abcdef", 40_000))
	d.has("t/local/own", "own")
	d.has("t/local/"+strings.Repeat("n", 200)+"/"+strings.Repeat("m", 200), "long name")
	d.has("alloc/data/link", "first")
	d.has("t/local/up", "first")
	d.has("alloc/data/closed/x", "x")
	for name, want := range map[string]os.FileMode{"alloc/data/tool": 0o755, "alloc/data/none": os.ModeDir | 0o700,
		"alloc/data/closed": os.ModeDir | 0o500, "alloc/data/a": 0o640} {
		if info, err := os.Lstat(filepath.Join(d.path, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want mode %v", name, info, err, want)
		}
	}
	for _, name := range []string{"t/secrets/key", "alloc/logs/t.stdout.0", "alloc/data/pipe", ".migrate"} {
		if _, err := os.Lstat(filepath.Join(d.path, name)); err == nil {
			t.Errorf("%s followed", name)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(d.path, "alloc/data/sparse"), &st); err != nil || st.Size != 60<<20+3 || st.Blocks*512 > 1<<20 {
		t.Errorf("sparse: %d bytes, %d on disk, %v", st.Size, st.Blocks*512, err)
	}
	if info, err := os.Stat(filepath.Join(d.path, "alloc/data/a")); err != nil || info.ModTime().Year() != 2020 {
		t.Errorf("time of a: %v, %v", info, err)
	}
}

func TestFetch(t *testing.T) {
	from, to := newDisk(t), newDisk(t)
	fill(t, from)
	node := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(migrate.TokenHeader) != "secret" {
			t.Error("the request has no token")
		}
		if err := from.source().Serve(w, r); err != nil {
			t.Error(err)
		}
	})
	to.write("alloc/data/left", "of an attempt before a crash")
	to.write(".migrate/alloc/data/left", "of an attempt before a crash")
	if err := to.fetch(node, limits()); err != nil {
		t.Fatal(err)
	}
	filled(t, to)
	if _, err := os.Lstat(filepath.Join(to.path, "alloc/data/left")); err == nil {
		t.Error("a file of an earlier attempt was left")
	}
}

// cutter is a connection that breaks after a number of bytes.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// A stream goes on after a broken connection where it was. Without progress it fails.
func TestResume(t *testing.T) {
	from, to := newDisk(t), newDisk(t)
	fill(t, from)
	var offsets []string
	var sent atomic.Int64
	node := serve(t, func(w http.ResponseWriter, r *http.Request) {
		offsets = append(offsets, r.Header.Get(migrate.OffsetHeader))
		if err := from.source().Serve(&cutter{w, 7_000_001}, r); err != nil {
			t.Error(err)
		}
		sent.Add(1)
	})
	if err := to.fetch(node, limits()); err != nil {
		t.Fatal(err)
	}
	filled(t, to)
	if len(offsets) < 8 || offsets[0] != "0" || offsets[1] == "0" || sent.Load() != 1 {
		t.Errorf("offsets %v, %d complete", offsets, sent.Load())
	}
	none := newDisk(t)
	err := none.fetch(serve(t, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }), limits())
	if err == nil || !strings.Contains(err.Error(), "3 connections failed after 0 bytes") {
		t.Errorf("without progress: %v", err)
	}
	none.empty()
}

// A node that cannot resume is asked once. A stream of Nomad 2.0 has no digest and is accepted.
func TestNomadSender(t *testing.T) {
	from := newDisk(t)
	fill(t, from)
	for broken, want := range map[bool]string{false: "", true: "the node cannot resume"} {
		to := newDisk(t)
		err := to.fetch(serve(t, func(w http.ResponseWriter, r *http.Request) {
			if broken {
				w = &cutter{w, 100_000}
			}
			if err := from.source().Write(r.Context(), w); err != nil && !broken {
				t.Error(err)
			}
		}), limits())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("broken %v: %v, want %q", broken, err, want)
		}
		if broken {
			to.empty()
		} else {
			filled(t, to)
		}
	}
}

// Data that changes between two connections is detected by the digest.
func TestChangedData(t *testing.T) {
	from, to := newDisk(t), newDisk(t)
	for i := range 100 {
		from.write(fmt.Sprintf("alloc/data/%03d", i), strings.Repeat("x", 10_000))
	}
	first := true
	err := to.fetch(serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !first {
			from.write("alloc/data/000", strings.Repeat("y", 10_000))
			from.source().Serve(w, r)
			return
		}
		first = false
		from.source().Serve(&cutter{w, 300_000}, r)
	}), limits())
	if err == nil || !strings.Contains(err.Error(), "the digest of the stream is wrong") {
		t.Errorf("Receive() = %v, want a wrong digest", err)
	}
	to.empty()
}

// An error of the sender is the error of the receiver.
func TestSenderFails(t *testing.T) {
	from, to := newDisk(t), newDisk(t)
	deep := strings.Repeat("d/", 250)
	if err := os.MkdirAll(filepath.Join(from.path, "alloc/data", deep), 0o755); err != nil {
		t.Fatal(err)
	}
	err := to.fetch(serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := from.source().Serve(w, r); err == nil {
			t.Error("the sender reports no error")
		}
	}), limits())
	if err == nil || !strings.Contains(err.Error(), "Error snapshotting: ") || !strings.Contains(err.Error(), "levels of directories") {
		t.Errorf("Receive() = %v, want the sender's error", err)
	}
	to.empty()
}

// A refused request is not repeated.
func TestRefusedRequest(t *testing.T) {
	to, requests := newDisk(t), 0
	err := to.fetch(serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		http.Error(w, "no such allocation", http.StatusNotFound)
	}), limits())
	if err == nil || !strings.Contains(err.Error(), "no such allocation") || requests != 1 {
		t.Errorf("%d requests, %v", requests, err)
	}
}

// A silent sender and a slow one are given up.
func TestSlowSender(t *testing.T) {
	for name, l := range map[string]func(*migrate.Limits){
		"silent": func(l *migrate.Limits) { l.Stall = 20 * time.Millisecond },
		"slow":   func(l *migrate.Limits) { l.Total = 200 * time.Millisecond },
	} {
		to := newDisk(t)
		release := make(chan struct{})
		node := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for {
				select {
				case <-r.Context().Done():
					return
				case <-release:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if name == "slow" {
					w.Write([]byte{0})
					http.NewResponseController(w).Flush()
				}
			}
		})
		lim := limits()
		l(&lim)
		err := to.fetch(node, lim)
		close(release)
		want := map[string]string{"silent": "no data for", "slow": "takes longer than"}[name]
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		to.empty()
	}
}

// A snapshot ends with its context.
func TestSnapshotEndsWithItsContext(t *testing.T) {
	from := newDisk(t)
	for i := range 100 {
		from.write(fmt.Sprintf("alloc/data/%03d", i), "x")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	err := from.source().Write(ctx, writer(func(p []byte) (int, error) {
		if out.Len() > 10_000 {
			cancel()
		}
		return out.Write(p)
	}))
	if !errors.Is(err, context.Canceled) || out.Len() > 20_000 {
		t.Errorf("Write() = %v after %d bytes, want the end of the context", err, out.Len())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/open-nomad/open-nomad/command/backup"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/fsm"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

// archive returns a complete snapshot with one record of a type.
func archive(t *testing.T, kind byte) []byte {
	t.Helper()
	var state, out bytes.Buffer
	w := fsm.NewRecordWriter(&state)
	err := errors.Join(w.Header(), w.Write(kind, &nomad.IndexEntry{Key: "jobs", Value: 7}), w.Flush())
	if err == nil {
		_, err = snapshot.Write(&out, &raft.SnapshotMeta{Version: 1, ID: "1-7-0", Index: 7, Term: 1, Size: int64(state.Len())}, &state)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// source returns its answers in order and repeats the last one.
type source struct {
	answers []func() (io.ReadCloser, error)
	asked   []time.Time
}

func (s *source) fetch(context.Context) (io.ReadCloser, error) {
	answer := s.answers[min(len(s.asked), len(s.answers)-1)]
	s.asked = append(s.asked, time.Now())
	return answer()
}

func gives(raw []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
}

func down() (io.ReadCloser, error) { return nil, errors.New("no server answers") }

func config(dir string, src *source) backup.Config {
	return backup.Config{Fetch: src.fetch, Dir: dir, Prefix: "nomad", Interval: time.Hour, Timeout: time.Minute, Retain: 3,
		Log: slog.New(slog.DiscardHandler)}
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		names = append(names, f.Name())
	}
	return names
}

func TestTakesByTimeAndRotates(t *testing.T) {
	dir := t.TempDir()
	foreign := []string{"nomad-old.snap", "other-20000101T000000.000Z.snap", "nomad-20000101T000000.000Z.snap.bak"}
	for _, name := range foreign {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	half := filepath.Join(dir, ".nomad-20000101T000000.000Z.snap-123")
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := archive(t, 2)
	src := &source{answers: []func() (io.ReadCloser, error){gives(good), down, down, gives(good[:len(good)/2]), gives(archive(t, 99)),
		gives(good)}}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		run(t, config(dir, src), 5*time.Hour)
		var at []string
		for _, moment := range src.asked {
			at = append(at, moment.Sub(begun).String())
		}
		// One at the start. After an hour four failures with growing waits, then one per hour.
		if got := strings.Join(at, " "); got != "0s 1h0m0s 1h0m1s 1h0m3s 1h0m7s 1h0m15s 2h0m15s 3h0m15s 4h0m15s" {
			t.Errorf("asked at %s", got)
		}
		// A restart takes no snapshot before the next is due.
		src.asked = nil
		run(t, config(dir, src), 5*time.Second)
		run(t, config(dir, src), 5*time.Second)
		if len(src.asked) != 0 {
			t.Errorf("restarts took %d snapshots", len(src.asked))
		}
	})
	kept, err := filepath.Glob(filepath.Join(dir, "nomad-2000*Z.snap"))
	if err != nil || len(kept) != 3 {
		t.Fatalf("%d files are kept, %v", len(kept), err)
	}
	for i, name := range kept {
		if !strings.HasSuffix(name, fmt.Sprintf("T%02d0015.000Z.snap", 2+i)) {
			t.Errorf("%s is kept", name)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if raw, err := os.ReadFile(name); err != nil || !bytes.Equal(raw, good) {
			t.Errorf("%s is not what was sent: %v", name, err)
		}
	}
	if got := len(files(t, dir)); got != 3+len(foreign)+1 { // plus the lock file
		t.Errorf("the directory has %v", files(t, dir))
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was half done is there: %v", err)
	}
}

// run runs an agent for some time.
func run(t *testing.T, cfg backup.Config, d time.Duration) {
	t.Helper()
	a, err := backup.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := a.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run() = %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

func TestOnceKeepsOnlyWhatIsWhole(t *testing.T) {
	good := archive(t, 2)
	altered := bytes.Clone(good)
	altered[len(altered)/2] ^= 0x55
	for name, answer := range map[string]func() (io.ReadCloser, error){"no server": down, "empty": gives(nil),
		"cut":     gives(good[:len(good)-1]),
		"altered": gives(altered), "unknown record": gives(archive(t, 99))} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			a, err := backup.New(config(dir, &source{answers: []func() (io.ReadCloser, error){answer}}))
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := a.Once(t.Context()); err == nil {
				t.Error("it is taken")
			}
			if got := files(t, dir); len(got) != 1 || got[0] != ".nomad.lock" {
				t.Errorf("the directory has %v", got)
			}
		})
	}
}

func TestOnlyOneAgentAtATime(t *testing.T) {
	dir := t.TempDir()
	cfg := config(dir, &source{})
	a, err := backup.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := backup.New(cfg); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("New() = %v", err)
	}
	cfg.Prefix = "other"
	other, err := backup.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	if again, err := backup.New(config(dir, &source{})); err != nil {
		t.Errorf("after it was closed: %v", err)
	} else {
		again.Close()
	}
}

func TestBadSettings(t *testing.T) {
	for name, change := range map[string]func(*backup.Config){
		"no interval": func(c *backup.Config) { c.Interval = 0 }, "no timeout": func(c *backup.Config) { c.Timeout = -1 },
		"retains none": func(c *backup.Config) { c.Retain = 0 }, "no directory": func(c *backup.Config) { c.Dir += "/nothing" },
		"prefix with a path": func(c *backup.Config) { c.Prefix = "../x" }, "no prefix": func(c *backup.Config) { c.Prefix = "" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t.TempDir(), &source{})
			change(&cfg)
			if _, err := backup.New(cfg); err == nil {
				t.Error("it is taken")
			}
		})
	}
}

func TestConfigurationFiles(t *testing.T) {
	write := func(t *testing.T, name, text string, mode fs.FileMode) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want := backup.Settings{Interval: 5 * time.Minute, Timeout: time.Minute, Retain: 7, Dir: "/backups", Prefix: "east", Stale: true,
		LogLevel: "debug", LogJSON: true}
	for name, text := range map[string]string{
		"a.hcl": `nomad { address = "https://x:4646" }
snapshot {
  interval = "5m"
  timeout  = "1m"
  retain   = 7
  stale    = true
  prefix   = "east"
}
local_storage { path = "/backups" }
log {
  level = "debug"
  json  = true
}`,
		"a.json": `{"nomad": {"address": "https://x:4646"}, "snapshot": {"interval": "5m", "timeout": "1m", "retain": 7, "stale": true, "prefix": "east"},
"local_storage": {"path": "/backups"}, "log": {"level": "debug", "json": true}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := backup.Defaults()
			if err := got.ReadFile(write(t, name, text, 0o644)); err != nil {
				t.Fatal(err)
			}
			if got.Server == nil || got.Server.Address != "https://x:4646" {
				t.Errorf("Server = %+v", got.Server)
			}
			if got.Server = nil; got != want {
				t.Errorf("ReadFile() = %+v, want %+v", got, want)
			}
		})
	}
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":   {`snapshot { every = "5m" }`, "every"},
		"bad interval":  {`snapshot { interval = "soon" }`, "snapshot.interval"},
		"other storage": {`aws_storage { s3_bucket = "b" }`, "aws_storage: not part of this version"},
		"open token":    {`nomad { token = "7e1b" }`, "other users can read it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := backup.Defaults()
			err := s.ReadFile(write(t, "a.hcl", c.text, 0o644))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "7e1b") {
				t.Errorf("ReadFile() = %v, want an error with %q", err, c.want)
			}
		})
	}
	s := backup.Defaults()
	if err := s.ReadFile(write(t, "a.hcl", `nomad { token = "7e1b" }`, 0o600)); err != nil || s.Server.Token != "7e1b" {
		t.Errorf("a token that only the owner reads: %v", err)
	}
}

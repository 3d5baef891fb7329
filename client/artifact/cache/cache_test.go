package cache_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/open-nomad/open-nomad/client/artifact/cache"
)

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func open(t *testing.T, dir string, limit int64) *cache.Cache {
	t.Helper()
	c, err := cache.Open(dir, limit, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// put adds a text under a key made of name.
func put(t *testing.T, c *cache.Cache, name, text string) {
	t.Helper()
	if err := add(t, c, name, text, sum(text)); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, c *cache.Cache, name, text, sha string) error {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return c.Put(t.Context(), sum(name), cache.Entry{SHA256: sha, Name: "file"}, f)
}

// get returns the text of a key, "" if it is missing.
func get(t *testing.T, c *cache.Cache, name string) string {
	t.Helper()
	hit, err := c.Get(t.Context(), sum(name))
	if err != nil {
		t.Fatal(err)
	}
	if hit == nil {
		return ""
	}
	defer hit.File.Close()
	b, err := io.ReadAll(hit.File)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	c := open(t, dir, 100)
	if got := get(t, c, "a"); got != "" {
		t.Errorf("Get() of an empty cache = %q", got)
	}
	c.Missed()
	put(t, c, "a", "text")
	put(t, c, "b", "text") // the same content
	put(t, c, "c", "other")
	for name, want := range map[string]string{"a": "text", "b": "text", "c": "other", "d": ""} {
		if got := get(t, c, name); got != want {
			t.Errorf("Get(%s) = %q, want %q", name, got, want)
		}
	}
	want := cache.Status{Size: 9, Limit: 100, Files: 2, Keys: 3, Counts: cache.Counts{Hits: 3, Misses: 1, HitBytes: 13}}
	if got := c.Status(); got != want {
		t.Errorf("Status() = %+v, want %+v", got, want)
	}
	for _, name := range []string{".", "blobs", "index"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
		}
	}
	again := open(t, dir, 100) // as after a restart
	if got := get(t, again, "b"); got != "text" {
		t.Errorf("after a restart: %q", got)
	}
	again.Purge()
	if got := again.Status(); got.Size != 0 || got.Files != 0 || got.Keys != 0 || get(t, again, "a") != "" {
		t.Errorf("after Purge(): %+v", got)
	}
	for _, name := range []string{"blobs", "index"} {
		if left, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(left) > 0 {
			t.Errorf("after Purge(): %s has %v, %v", name, left, err)
		}
	}
}

// The files that were not used for the longest time go first, also after a restart.
func TestEviction(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, 30)
	for _, name := range []string{"a", "b", "c"} {
		put(t, c, name, name+"123456789")
	}
	if get(t, c, "a") == "" {
		t.Fatal("a is missing")
	}
	put(t, c, "d", "d123456789")
	for name, kept := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := get(t, c, name) != ""; got != kept {
			t.Errorf("%s is kept: %v, want %v", name, got, kept)
		}
	}
	if got := c.Status(); got.Size != 30 || got.Evicted != 1 {
		t.Errorf("Status() = %+v", got)
	}
	if get(t, c, "c") == "" || get(t, c, "a") == "" { // d is the oldest now
		t.Fatal("c or a is missing")
	}
	smaller := open(t, dir, 20)
	for name, kept := range map[string]bool{"a": true, "c": true, "d": false} {
		if got := get(t, smaller, name) != ""; got != kept {
			t.Errorf("after a restart with a lower limit, %s is kept: %v, want %v", name, got, kept)
		}
	}
	put(t, smaller, "large", strings.Repeat("x", 21))
	if get(t, smaller, "large") != "" || get(t, smaller, "a") == "" {
		t.Error("a file above the limit displaced others")
	}
	if files, err := os.ReadDir(filepath.Join(dir, "blobs")); err != nil || len(files) != 2 {
		t.Errorf("blobs: %v, %v", files, err)
	}
}

// An open file stays readable when its entry is removed.
func TestOpenWhileRemoved(t *testing.T) {
	c := open(t, t.TempDir(), 100)
	put(t, c, "a", "text")
	hit, err := c.Get(t.Context(), sum("a"))
	if err != nil || hit == nil {
		t.Fatalf("Get() = %v, %v", hit, err)
	}
	defer hit.File.Close()
	c.Purge()
	if b, err := io.ReadAll(hit.File); string(b) != "text" || err != nil {
		t.Errorf("read %q, %v", b, err)
	}
}

// Only content of its hash enters, and changed content does not leave.
func TestPoisoning(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, 100)
	if err := add(t, c, "a", "evil", sum("text")); err == nil {
		t.Error("Put() accepts content of another hash")
	}
	if get(t, c, "a") != "" {
		t.Error("the refused content is in the cache")
	}
	for name, e := range map[string]cache.Entry{"hash": {SHA256: "../../x"}, "name": {SHA256: sum("x"), Name: "../x"},
		"dots": {SHA256: sum("x"), Name: ".."}} {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Put(t.Context(), sum("x"), e, f); err == nil {
			t.Errorf("Put() accepts a malformed entry: %s", name)
		}
		if err := c.Put(t.Context(), "../x", cache.Entry{SHA256: sum("")}, f); err == nil {
			t.Error("Put() accepts a malformed key")
		}
		f.Close()
	}
	put(t, c, "a", "text")
	put(t, c, "b", "other")
	blob := filepath.Join(dir, "blobs", sum("text"))
	if err := errors.Join(os.Chmod(blob, 0o600), os.WriteFile(blob, []byte("evil"), 0o600)); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, 100)
	if got := get(t, again, "a"); got != "" {
		t.Errorf("after a restart, changed content is used: %q", got)
	}
	if _, err := os.Stat(blob); err == nil {
		t.Error("changed content is kept")
	}
	if got := get(t, again, "b"); got != "other" {
		t.Errorf("the other file: %q", got)
	}
}

// What is not of the cache is removed when it opens: leftovers, links, malformed entries.
func TestForeignFiles(t *testing.T) {
	dir := t.TempDir()
	canary := filepath.Join(t.TempDir(), "canary")
	c := open(t, dir, 100)
	put(t, c, "a", "text")
	put(t, c, "link", "link")
	blob := filepath.Join(dir, "blobs", sum("link"))
	err := errors.Join(os.WriteFile(canary, []byte("link"), 0o600), os.Remove(blob), os.Symlink(canary, blob),
		os.MkdirAll(filepath.Join(dir, "blobs/.new-1/x"), 0o700), os.WriteFile(filepath.Join(dir, "blobs", sum("none")), nil, 0o600),
		os.WriteFile(filepath.Join(dir, "blobs/readme"), nil, 0o600), os.WriteFile(filepath.Join(dir, "index/readme"), []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(dir, "index", sum("bad")), []byte("{"), 0o600),
		os.WriteFile(filepath.Join(dir, "index", sum("evil")), fmt.Appendf(nil, `{"SHA256": %q, "Name": "../../x"}`, sum("text")), 0o600),
		os.WriteFile(filepath.Join(dir, "index", sum("lost")), fmt.Appendf(nil, `{"SHA256": %q}`, sum("lost")), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, 100)
	if got := get(t, again, "a"); got != "text" {
		t.Errorf("Get(a) = %q", got)
	}
	if got := get(t, again, "link") + get(t, again, "evil") + get(t, again, "lost"); got != "" {
		t.Errorf("foreign entries give %q", got)
	}
	for _, name := range []string{"blobs", "index"} {
		if left, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(left) != 1 {
			t.Errorf("%s has %v, %v, want one file", name, left, err)
		}
	}
	if b, err := os.ReadFile(canary); string(b) != "link" || err != nil {
		t.Errorf("the target of the link has %q, %v", b, err)
	}
}

func TestConcurrent(t *testing.T) {
	c := open(t, t.TempDir(), 200)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			text := fmt.Sprintf("%020d", i%12)
			put(t, c, text, text)
			if got := get(t, c, text); got != "" && got != text {
				t.Errorf("Get() = %q, want %q", got, text)
			}
			c.Status()
			if i == 20 {
				c.Purge()
			}
		})
	}
	all.Wait()
	if got := c.Status(); got.Size > 200 || got.Size < 0 || got.Size != int64(got.Files)*20 {
		t.Errorf("Status() = %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	put(t, c, "z", "z")
	if hit, err := c.Get(ctx, sum("z")); hit != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Get() with a cancelled context = %v, %v", hit, err)
	}
}

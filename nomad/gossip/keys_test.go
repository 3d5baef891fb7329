package gossip_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/open-nomad/open-nomad/internal/testbuffer"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad/gossip"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func logger(to *testbuffer.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func newKey() (raw []byte, text string) {
	raw = make([]byte, 32)
	rand.Read(raw)
	return raw, base64.StdEncoding.EncodeToString(raw)
}

// fileKeys reads a key file and checks its mode.
func fileKeys(t *testing.T, path string) (keys []string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v, %v", path, info, err)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &keys)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestKeys_Rotate(t *testing.T) {
	old, oldText := newKey()
	_, newText := newKey()
	var log testbuffer.Buffer
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name, "serf.keyring") }
	with := func(name string) func(*gossip.Config) {
		return func(c *gossip.Config) {
			c.Key, c.KeyFile, c.Log = old, file(name), logger(&log)
			c.Probe = time.Second // slow members are probed, and their answers awaited
		}
	}
	a, b, down := open(t, "a", with("a")), open(t, "b", with("b")), open(t, "c", with("c"))
	for _, p := range []*gossip.Pool{b, down} {
		if _, err := p.Join([]string{addr(a)}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, b, "c.global", gossip.Alive)
	eventually(t, a, "c.global", gossip.Alive)
	down.Close()
	for _, p := range []*gossip.Pool{a, b} {
		eventually(t, p, "c.global", gossip.Failed)
	}

	must := func(resp *message.KeyringResponse, err error) *message.KeyringResponse {
		t.Helper()
		if err != nil || resp.NumNodes != 2 || !strings.Contains(resp.Messages["c.global"], "failed") {
			t.Fatalf("%+v, %v", resp, err)
		}
		return resp
	}
	refused := func(want string, _ *message.KeyringResponse, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want an error with %q", err, want)
		}
	}
	r, err := a.UseKey(newText)
	refused("0 of 2 servers have this gossip key", r, err)
	r, err = a.RemoveKey(oldText)
	refused("2 of 2 servers encrypt with this gossip key", r, err)
	r, err = a.RemoveKey(newText)
	refused("no server has", r, err)
	for _, bad := range []string{"", "!!", "c2hvcnQ="} {
		r, err = a.InstallKey(bad)
		refused("in base64 are expected", r, err)
	}

	must(a.InstallKey(newText))
	if now := must(b.Keys()); now.Keys[oldText] != 2 || now.Keys[newText] != 2 || now.PrimaryKeys[oldText] != 2 || len(now.PrimaryKeys) != 1 {
		t.Fatalf("after install: %+v", now)
	}
	must(b.UseKey(newText))
	must(a.RemoveKey(oldText))
	for name, p := range map[string]*gossip.Pool{"a": a, "b": b} {
		if now := must(p.Keys()); len(now.Keys) != 1 || now.Keys[newText] != 2 || now.PrimaryKeys[newText] != 2 {
			t.Errorf("after remove: %+v", now)
		}
		if keys := fileKeys(t, file(name)); len(keys) != 1 || keys[0] != newText {
			t.Errorf("the file of %s has %d keys, want only the new one", name, len(keys))
		}
	}
	eventually(t, b, "a.global", gossip.Alive)

	// The member that was down has the old key, and gets an error.
	again := open(t, "c", with("c"))
	if n, err := again.Join([]string{addr(a)}); n != 0 || err == nil || !strings.Contains(err.Error(), "gossip key") {
		t.Errorf("with the old key: Join() = %d, %v", n, err)
	}
	again.Close()
	// The file takes precedence over the configuration, so that the file has to be removed.
	if err := os.Remove(file("c")); err != nil {
		t.Fatal(err)
	}
	mended := open(t, "c", func(c *gossip.Config) {
		with("c")(c)
		c.Key, _ = base64.StdEncoding.DecodeString(newText)
	})
	testpace.Succeeds(t, "join with the new key", func() error { // as an agent does: the old member of this name is checked first
		_, err := mended.Join([]string{addr(a)})
		return err
	})
	b.Close()
	back := open(t, "b", with("b"))
	if n, err := back.Join([]string{addr(a)}); n != 1 || err != nil {
		t.Errorf("a server that restarts with its file: Join() = %d, %v", n, err)
	}
	if text := log.String(); !strings.Contains(text, "ignoring server.encrypt") {
		t.Error("no log line about the ignored key")
	} else if strings.Contains(text, oldText) || strings.Contains(text, newText) || strings.Contains(text, string(old)) {
		t.Error("a key is in the log")
	}
}

func TestKeys_InvalidFile(t *testing.T) {
	key, text := newKey()
	for name, content := range map[string]string{"empty": "", "cut": `["` + text, "no key": "[]", "no array": `"` + text + `"`,
		"short key": `["c2hvcnQ="]`, "no base64": `["%%%"]`} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "serf.keyring")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := gossip.Open(gossip.Config{Name: "x", Bind: "127.0.0.1:0", Key: key, KeyFile: file})
			if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), text) {
				t.Errorf("Open() = %v, want an error with the file's name and without the key", err)
			}
			if now, _ := os.ReadFile(file); string(now) != content {
				t.Error("the file was changed")
			}
		})
	}
	file := filepath.Join(t.TempDir(), "serf.keyring")
	if err := os.WriteFile(file, []byte(`["`+text+`"]`), 0o644); err != nil {
		t.Fatal(err)
	}
	p := open(t, "x", func(c *gossip.Config) { c.KeyFile = file })
	if keys := fileKeys(t, file); keys[0] != text {
		t.Error("the key of the file is missing")
	}
	if now, err := p.Keys(); err != nil || now.Keys[text] != 1 || now.NumNodes != 1 {
		t.Errorf("a file without a configured key: %v", err)
	}
}

func TestKeys_Disabled(t *testing.T) {
	_, text := newKey()
	p := open(t, "x", nil)
	if _, err := p.Keys(); err != gossip.ErrNotEncrypted {
		t.Errorf("Keys() = %v", err)
	}
	if _, err := p.InstallKey(text); err != gossip.ErrNotEncrypted {
		t.Errorf("InstallKey() = %v", err)
	}
}

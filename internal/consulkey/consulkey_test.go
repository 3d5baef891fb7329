package consulkey

import (
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/nomad/variable"
)

func TestPath(t *testing.T) {
	for key, want := range map[string]string{
		"a":                      "consul/a",
		"a/b.c":                  "consul/a/b~2Ec",
		"A-b_9/~x":               "consul/A-b_9/~7Ex",
		"a/../b":                 "consul/a/~2E~2E/b",
		"grüße \n*":              "consul/gr~C3~BC~C3~9Fe~20~0A~2A",
		"a\x00\xff":              "consul/a~00~FF",
		strings.Repeat("x", 121): "consul/" + strings.Repeat("x", 121),
	} {
		got, err := Path(key)
		if err != nil || got != want {
			t.Errorf("Path(%q) = %q, %v, want %q", key, got, err, want)
		}
		if back, ok := Key(want); !ok || back != key {
			t.Errorf("Key(%q) = %q, %v, want %q", want, back, ok, key)
		}
	}
}

func TestPath_Refused(t *testing.T) {
	long := strings.Repeat("x", 122)
	for key, want := range map[string]string{
		"":      "the key is empty",
		"/a":    `key "/a" begins with a slash: remove it`,
		"/":     `key "/" begins with a slash: remove it`,
		"a/":    `key "a/" is a folder, because it ends with a slash: name a key in it`,
		"a//b":  `key "a//b" has an empty segment: use one slash between two segments`,
		long:    `key "` + long + `" is too long: its variable path has 129 bytes, and the limit is 128`,
		"a.//b": `key "a.//b" has an empty segment: use one slash between two segments`,
	} {
		if got, err := Path(key); err == nil || err.Error() != want {
			t.Errorf("Path(%q) = %q, %v, want the error %q", key, got, err, want)
		}
	}
	if _, err := Path(strings.Repeat("é", 1<<20)); err == nil || len(err.Error()) > 2000 {
		t.Errorf("the error for a key of 2 MiB: %.80v", err)
	}
}

func TestKey_NotOfAKey(t *testing.T) {
	for _, path := range []string{"", "consul", "consul/", "consul/a/", "consul//a", "consul/a~", "consul/a~2", "consul/a~2e",
		"consul/a~41", "consul/a~2F", "consul/a~ZZ", "consul/a~@@", "consul/a~::", "nomad/jobs/a", "consul/a.b",
		"consul/" + strings.Repeat("x", 122)} {
		if key, ok := Key(path); ok {
			t.Errorf("Key(%q) = %q, want none", path, key)
		}
	}
}

func TestPrefix(t *testing.T) {
	for keys, want := range map[string]string{"": "consul/", "a": "consul/a", "a/": "consul/a/", "a/b.": "consul/a/b~2E"} {
		if got, err := Prefix(keys); err != nil || got != want {
			t.Errorf("Prefix(%q) = %q, %v, want %q", keys, got, err, want)
		}
	}
	for _, keys := range []string{"/", "/a", "a//", "a//b", strings.Repeat(".", 41)} {
		if got, err := Prefix(keys); err == nil || !strings.Contains(err.Error(), keys) {
			t.Errorf("Prefix(%q) = %q, %v, want an error that names it", keys, got, err)
		}
	}
}

// FuzzPath checks that keys come back unchanged, that their paths are valid, and that prefixes stay prefixes.
func FuzzPath(f *testing.F) {
	for _, key := range []string{"a/b.c", "~", "a/~2E", "é", "consul/x", "a//b", "\x00"} {
		f.Add(key, 1)
	}
	f.Fuzz(func(t *testing.T, key string, cut int) {
		path, err := Path(key)
		if err != nil {
			return
		}
		if err := variable.CheckPath(path); err != nil {
			t.Fatalf("Path(%q) = %q: %v", key, path, err)
		}
		if back, ok := Key(path); !ok || back != key {
			t.Fatalf("Key(%q) = %q, %v, want %q", path, back, ok, key)
		}
		begin := key[:min(len(key), max(cut, 0))]
		if prefix, err := Prefix(begin); err != nil || !strings.HasPrefix(path, prefix) {
			t.Fatalf("Prefix(%q) = %q, %v: not a prefix of %q", begin, prefix, err, path)
		}
	})
}

// FuzzKey checks that a path with a key is the only path of the key.
func FuzzKey(f *testing.F) {
	for _, path := range []string{"consul/a/b~2Ec", "consul/~7E", "consul/a~2e", "consul/~", "nomad/jobs"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		key, ok := Key(path)
		if !ok {
			return
		}
		if again, err := Path(key); err != nil || again != path {
			t.Fatalf("Key(%q) = %q, but Path of it = %q, %v", path, key, again, err)
		}
	})
}

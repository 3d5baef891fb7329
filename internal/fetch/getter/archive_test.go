package getter

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gogetter "github.com/hashicorp/go-getter"

	"github.com/open-nomad/open-nomad/internal/fetch"
)

// Every decompressor of the library has a check.
func TestUnpackers(t *testing.T) {
	all, err := unpackers(fetch.Limits{Unpacked: 1, Files: 1})
	if err != nil {
		t.Fatal(err)
	}
	for kind := range gogetter.Decompressors {
		switch d := all[kind].(type) {
		case *checked:
			if d.check == nil {
				t.Errorf("%s has no check", kind)
			}
		case *single:
		default:
			t.Errorf("%s has the decompressor %T", kind, d)
		}
		if _, ok := keepers("")[kind].(*keep); !ok {
			t.Errorf("%s is unpacked during the download", kind)
		}
	}
}

// No getter of the library is added that has no wrapper, and no file getter.
func TestGetters(t *testing.T) {
	j := &job{Request: &fetch.Request{}}
	all := j.getters(scoped{}, &lastFile{})
	for name := range gogetter.Getters {
		if _, have := all[name]; have == (name == "file") {
			t.Errorf("getter %s: %v", name, have)
		}
	}
	for name, g := range all {
		if _, ok := g.(*noted); !ok {
			t.Errorf("getter %s is a %T", name, g)
		}
	}
	web := all["https"].(*noted).Getter.(*gogetter.HttpGetter)
	if web.Netrc || !web.XTerraformGetDisabled || !web.DoNotCheckHeadFirst || web.MaxBytes != 0 || web.Client == nil {
		t.Errorf("https: %+v", web)
	}
}

func TestEntries(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a", "b/", "b/", "b/c", "./", "d//e", "./f"}, ""},
		{[]string{"a/", "a/b", "a/b/c"}, `contains "a/b" twice`},
		{[]string{"A", "a", "D/x", "d/x", "É", "é"}, ""}, // these are different files
		{[]string{"a", "./a"}, `contains "a" twice`},
		{[]string{"a", "a/"}, `contains "a" twice`},
		{[]string{"1", "2", "3", "4", "5", "6", "7"}, "more than 6 entries"},
		{[]string{"a/b/c/d/e/f/g"}, "more than 6 entries"},
	} {
		e := &entries{limits: fetch.Limits{Files: 6}, names: map[string]bool{}}
		if c.want == "" {
			e.limits.Files = 0
		}
		var err error
		for _, name := range c.names {
			if err = e.add(name, strings.HasSuffix(name, "/")); err != nil {
				break
			}
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("add(%q) = %v, want %q", c.names, err, c.want)
		}
	}
}

// What a file system that takes two names for one leaves is refused.
func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		archive, stored []string
		want            string
	}{
		"same":               {[]string{"A", "a", "d/", "d/x", "e/f"}, []string{"A", "a", "d/x", "e/f"}, ""},
		"one file of two":    {[]string{"A", "a"}, []string{"A"}, "stored 1 of 2 entries"},
		"one directory of 2": {[]string{"D/x", "d/y"}, []string{"D/x", "D/y"}, `stored an entry as "D/y"`},
		"normalized":         {[]string{"e\u0301"}, []string{"\u00e9"}, "stored an entry as"},
		"other kind":         {[]string{"a/"}, []string{"a"}, `stored an entry as "a"`},
		"nothing":            {[]string{"a"}, nil, "stored 0 of 1 entries"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, s := range c.stored {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, s)), 0o755),
					os.WriteFile(filepath.Join(dir, s), nil, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			e := &entries{names: map[string]bool{}}
			for _, n := range c.archive {
				if err := e.add(n, strings.HasSuffix(n, "/")); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.compare(dir); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("compare() = %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("a/../b")
	f.Add("//a/./b")
	f.Fuzz(func(t *testing.T, name string) {
		parts, err := split(name)
		if err != nil {
			return
		}
		for _, part := range parts {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "/\\\n\x00") {
				t.Errorf("split(%q) has the element %q", name, part)
			}
		}
	})
}

// A compressed file is not unpacked into a directory: the error names the options of the job.
func TestSingleNeedsModeFile(t *testing.T) {
	all, err := unpackers(fetch.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for kind := range singleKinds {
		err := all[kind].Decompress(t.TempDir(), "/dev/null", true, 0)
		if err == nil || !strings.Contains(err.Error(), `mode = "file"`) {
			t.Errorf("%s: Decompress() = %v, want an error that names the mode", kind, err)
		}
	}
}
